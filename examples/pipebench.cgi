#!/bin/sh
# A CGI program for any web server. The Debian package installs it. Elsewhere: copy it to the folder of CGI programs, make it executable, and write your
# paths into its last line, that of the executable and that of the site file.
# Web servers pass on neither variable. SSH needs HOME for its keys, and PATH to find ssh and getent.
HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export HOME PATH
exec /usr/bin/pipebench cgi --site /etc/pipebench/web.toml
