#!/bin/sh
# container.sh COMMAND…: runs COMMAND (podman) where it sees one cgroup hierarchy and tracefs, in a
# mount namespace of its own, so that the machine stays as it is.
#
# crun refuses a machine that has both hierarchies, as older systemd sets it up: "cgroups in hybrid
# mode not supported" (crun src/libcrun/cgroup.c).
set -eu
if [ "${1:-}" != --inside ]; then
	exec unshare --mount --propagation private "$0" --inside "$@"
fi
shift
if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
	umount -R /sys/fs/cgroup
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
# As systemd does on a node.
[ -d /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
exec "$@"
