#!/bin/sh
# A CGI program for any web server: copy it to where such programs are, name your site's file, make it executable.
# Web servers pass neither of these on; SSH needs the one for its keys, and the other to find ssh and getent.
HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export HOME PATH
exec /usr/local/bin/pipebench cgi --site /etc/pipebench/web.toml
