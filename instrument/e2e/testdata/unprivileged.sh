#!/bin/sh
# unprivileged.sh COMMAND…: becomes COMMAND as the user nobody, with no group, no capability
# and no way to get one (no_new_privs), as in a container of an ordinary Kubernetes pod.
#
# Root's home is closed to others, and may hold the Python environments. So it is replaced, in
# a mount namespace of our own, by an open folder with the same folders in it.
set -eu

if [ "${1:-}" != --inside ]; then
	exec unshare --mount --propagation private "$0" --inside "$@"
fi
shift

home=$(getent passwd 0 | cut -d: -f6)
mount --bind "$home" /mnt
mount -t tmpfs -o mode=755 tmpfs "$home"
for folder in /mnt/* /mnt/.[!.]*; do
	[ -d "$folder" ] && [ ! -L "$folder" ] || continue
	mkdir "$home/${folder#/mnt/}"
	mount --rbind "$folder" "$home/${folder#/mnt/}"
done
umount -l /mnt
exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --ambient-caps=-all \
	--bounding-set=-all --no-new-privs "$@"
