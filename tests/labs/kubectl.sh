#!/bin/sh
# Stands in for kubectl: takes the words of `kubectl exec POD`, refuses all others, and runs the command on the lab's
# host of the pod's name. It notes each pod that it reached. Like kubectl, it has no SSH session that could tell the
# command an address, and closes the command's standard input unless -i passes it on.
set -eu

fail() {
  echo "error: $*" >&2
  exit 1
}

verb='' pod='' input=no namespace=default container=first
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    -n | --namespace) namespace=$2 && shift ;;
    -c | --container) container=$2 && shift ;;
    --namespace=*) namespace=${1#*=} ;;
    --container=*) container=${1#*=} ;;
    -i | --stdin) input=yes ;;
    -t | --tty | -it | -ti) fail 'a terminal changes the bytes that pass' ;;
    -*) fail "unknown flag: $1" ;;
    *) if [ -z "$verb" ]; then verb=$1; elif [ -z "$pod" ]; then pod=$1; else fail "a second pod: $1"; fi ;;
  esac
  shift
done
[ "$verb" = exec ] || fail "unknown command \"$verb\""
[ -n "$pod" ] || fail 'no pod'
[ $# -gt 0 ] || fail 'a command needs -- before it'
shift
[ "$*" = '/bin/sh -s' ] || fail "not the command of a session: $*"
echo "$namespace $pod $container" >>/tmp/pods
[ $input = yes ] || exec </dev/null
exec ssh "$pod" env -u SSH_CONNECTION "$@"
