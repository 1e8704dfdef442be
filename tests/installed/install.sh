#!/bin/sh
# Installs a Debian package into a copy of this machine's files, and does what docs/web.md says after that.
# Usage: install.sh PACKAGE FOLDER_OF_THE_SOURCES, as the first process of namespaces for mounts, processes and network.
set -eu
package=$1 sources=$2

# Changes go to memory and end with this process.
mount --make-rprivate /
mount -t tmpfs none /mnt
for folder in etc usr var root; do
  mkdir -p "/mnt/$folder/new" "/mnt/$folder/work"
  mount -t overlay none -o "lowerdir=/$folder,upperdir=/mnt/$folder/new,workdir=/mnt/$folder/work" "/$folder"
done
mount -t tmpfs none /run
mount -t tmpfs none /dev/shm
mkdir -p /run/lock
ip link set lo up

# The commands of the document's block that contains this word.
block() { awk -v word="$1" '/^```/ {if (text ~ word) printf "%s", text; text = ""; inside = $0 == "```sh"; next} inside {text = text $0 "\n"}' "$sources/docs/web.md"; }
said() { echo "install.sh: $*" >&2; }

said "the package"
cd "$(dirname "$package")"
eval "$(block dpkg)" >/dev/null
[ "$(stat -c '%U %a' /var/lib/pipebench)" = "pipebench 755" ]
[ "$(stat -c '%U %a' /etc/pipebench/web.toml)" = "root 644" ]
[ -f /var/lib/pipebench/.ssh/id_ed25519.pub ]
# A site file that was changed survives another installation.
echo "# ours" >>/etc/pipebench/web.toml
dpkg -i pipebench_*.deb </dev/null >/dev/null
[ "$(tail -n 1 /etc/pipebench/web.toml)" = "# ours" ]

said "the unit"
systemd-analyze verify /usr/lib/systemd/system/pipebench.service
# From 0, safe, to 100.
systemd-analyze security --offline=true --threshold=30 /usr/lib/systemd/system/pipebench.service >/dev/null
command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/pipebench.service)
# shellcheck disable=SC2086 # its words
setpriv --reuid=pipebench --regid=pipebench --clear-groups env HOME=/var/lib/pipebench $command 2>/run/served &
server=$!
python3 "$sources/tests/installed/visit.py" link /run/served
said "nginx"
sed -n '/^```nginx$/,/^```$/p' "$sources/docs/web.md" | sed '1d;$d' >/run/location
cat >/run/nginx.conf <<END
pid /run/nginx.pid; error_log stderr; daemon off;
events {}
http { access_log off; server { listen 127.0.0.1:8083; include /run/location; } }
END
nginx -c /run/nginx.conf &
proxy=$!
python3 "$sources/tests/installed/visit.py" stranger http://127.0.0.1:8083/
kill "$proxy" "$server"
wait "$proxy" "$server"

said "lighttpd"
# In the background, unlike what the document shows.
eval "$(block 'lighttpd -D' | sed 's/$/ \&/')"
web=$!
python3 "$sources/tests/installed/visit.py" run http://127.0.0.1:8081/pipebench
kill "$web"
wait "$web" || true

said "Apache"
systemctl() { [ "$*" = "restart apache2" ] && apachectl start; }
eval "$(block a2ensite)" >/dev/null
python3 "$sources/tests/installed/visit.py" run http://127.0.0.1:8081/pipebench
apachectl stop
said "removed"
dpkg --remove pipebench >/dev/null
[ ! -e /usr/lib/systemd/system/pipebench.service ] && [ -d /var/lib/pipebench/runs ]
said "done"
