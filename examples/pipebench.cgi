#!/bin/sh
# A CGI program for any web server: copy it to the folder of CGI programs, name your site file, and make it executable.
# Two paths to change: that of the executable and that of the site file, both in the last line.
# Web servers pass on neither variable. SSH needs HOME for its keys, and PATH to find ssh and getent.
HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export HOME PATH
exec /usr/local/bin/pipebench cgi --site /etc/pipebench/web.toml
