#!/usr/bin/env bash
# The first process of one lab host, or of the switch, in namespaces of its own (unshare made them).
# It builds the host, says "spaces", waits for the line that says the cable is plugged in, starts sshd, says "ready",
# and then only reads: at the end of its input, that is when the test's process is gone, it ends and the kernel ends
# everything else of the host with it. bash, because it buries orphans while it reads.
set -euo pipefail
exec 2>&1
trap 'echo "failed in line $LINENO: $BASH_COMMAND"' ERR

until_the_test_is_gone() {
  echo ready
  while read -r _; do :; done
  exit 0
}

if [ "$LAB_ROLE" = switch ]; then
  # Forwarding stays off, so that a frame sent to the bridge's own address is dropped without a word.
  echo 0 >/proc/sys/net/ipv4/ip_forward
  ip link add br0 address "$LAB_BRIDGE_MAC" mtu "$LAB_MTU" type bridge forward_delay 0 stp_state 0 mcast_snooping 0
  ip link set br0 up
  until_the_test_is_gone
fi

hostname "$LAB_NAME"

# Its own files. A folder to hide or keep may lie in one that gets covered: what there was is noted first.
mount -t tmpfs -o mode=755 lab /run
cp -r "$LAB_FOLDER" /run/lab
mkdir /run/lock
mapfile -t folders <<<"$LAB_HIDE"
for i in "${!folders[@]}"; do
  [ -d "${folders[i]}" ] || continue
  mkdir "/run/lab/there$i"
  if [ "$LAB_ROLE" = launching ]; then mount --rbind "${folders[i]}" "/run/lab/there$i"; fi
done
mount -t tmpfs -o mode=700 lab /root
mount -t tmpfs -o mode=755 lab /var/log
for folder in /dev/shm /tmp /var/tmp; do mount -t tmpfs -o mode=1777 lab "$folder"; done
for i in "${!folders[@]}"; do
  [ -d "/run/lab/there$i" ] || continue
  mkdir -p "${folders[i]}"
  if [ "$LAB_ROLE" = launching ]; then
    mount --move "/run/lab/there$i" "${folders[i]}"
  else
    mount -t tmpfs lab "${folders[i]}"
  fi
  rmdir "/run/lab/there$i"
done
umount -l /sys || true
mount -t sysfs lab /sys

# Its own names: all hosts, no resolver (an unknown name fails at once), and a root that sshd lets in.
cd /run/lab
mount --bind hosts /etc/hosts
: >resolv.conf
if [ -e /etc/resolv.conf ]; then mount --bind resolv.conf /etc/resolv.conf; fi
sed 's/^root:[^:]*:/root:*:/' /etc/shadow >shadow && chmod 600 shadow
mount --bind shadow /etc/shadow

# Keys: two kinds of host key as a real sshd has them; the way in for everybody, the way out for the launching host.
for kind in ed25519 ecdsa; do ssh-keygen -q -t $kind -N '' -C "root@$LAB_NAME" -f host_$kind </dev/null; done
mkdir -m 700 /root/.ssh
cp id_ed25519.pub /root/.ssh/authorized_keys
if [ "$LAB_ROLE" = launching ]; then cp id_ed25519 id_ed25519.pub /root/.ssh/; fi
rm -f id_ed25519 id_ed25519.pub
chmod 600 /root/.ssh/*
mkdir -m 755 /run/sshd
cat >sshd_config <<END
HostKey /run/lab/host_ed25519
HostKey /run/lab/host_ecdsa
PidFile /run/lab/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
MaxStartups 200:30:400
MaxSessions 200
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
END

# A host without OpenSSL: sshd keeps a private copy, the real files are gone (an overlay whose upper layer says so),
# or at least empty where the kernel has no overlays. Nothing is deleted: a slip would hit the machine's own files.
if [ "$LAB_WITHOUT_OPENSSL" = yes ]; then
  mkdir libraries
  shopt -s nullglob
  found=({,/usr,/usr/local}/lib*/{,*/}lib{ssl,crypto}.so*)
  for folder in $(for file in "${found[@]}"; do realpath "$(dirname "$file")"; done | sort -u); do
    above=/run/lab/above$(tr / _ <<<"$folder")
    mkdir -p "$above/upper" "$above/work"
    for file in "$folder"/lib{ssl,crypto}.so*; do
      if [ -e "$file" ]; then cp -n "$file" libraries/; fi
      mknod "$above/upper/$(basename "$file")" c 0 0
    done
    mount -t overlay -o "lowerdir=$folder,upperdir=$above/upper,workdir=$above/work" lab "$folder" ||
      for file in "$folder"/lib{ssl,crypto}.so*; do mount --bind /dev/null "$file"; done
  done
fi

[ -z "$LAB_CONGESTION" ] || echo "$LAB_CONGESTION" >/proc/sys/net/ipv4/tcp_congestion_control
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 || true
ip link set lo up

echo spaces
read -r _

ip addr add "$LAB_ADDRESS/24" dev eth0
ip link set eth0 up
sshd=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd)
env -i PATH="$PATH" LD_LIBRARY_PATH=/run/lab/libraries "$sshd" -D -f sshd_config -E sshd.log </dev/null >/dev/null &
for ((wait = 0; wait < 1000; wait++)); do
  [ -s sshd.pid ] && break
  sleep 0.01
done
[ -s sshd.pid ] || { echo "failed: sshd does not listen"; cat sshd.log; exit 1; }
cd /
until_the_test_is_gone
