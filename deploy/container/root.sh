#!/usr/bin/env bash
# Makes the root of an image: the shared libraries that programs load, from Debian's packages, and nothing beside them: no
# shell, no package manager. Runs as root in Debian 12.
#
#   root.sh ROOT router roostctl    for these programs, by the list of packages.sh beside it
#
# ROOT/var/lib/dpkg/status lists the packages, as scanners look for it. The same packages give the same files.
set -euo pipefail
root=${1:?usage: root.sh ROOT PROGRAM...}
shift
here=$(dirname "$0")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# apt sees a system without packages, so it downloads everything that these depend on, and only that.
"$here"/packages.sh download "$scratch" "$@"

mkdir -p "$root"/{dev,etc,proc,run,sys,tmp,usr/bin,usr/lib,usr/lib64,var/lib/dpkg}
for folder in bin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
chmod 1777 "$root/tmp"
for file in "$scratch"/*.deb; do
  dpkg-deb --fsys-tarfile "$file" |
    tar --extract --directory "$root" --keep-directory-symlink --exclude './usr/share/doc/*/changelog*' \
      --exclude './usr/share/lintian' --exclude './usr/share/man' --exclude './usr/share/locale'
  dpkg-deb --field "$file" | sed '1a Status: install ok installed'
  echo
done >"$root/var/lib/dpkg/status"

cp /usr/lib/os-release "$root/usr/lib/os-release"
ln -s ../usr/lib/os-release "$root/etc/os-release"
printf 'root:x:0:0:root:/root:/usr/sbin/nologin\nroost:x:65532:65532:roost:/nonexistent:/usr/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nroost:x:65532:\n' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"

# Without ldconfig's own cache, which holds times.
echo 'include /etc/ld.so.conf.d/*.conf' >"$root/etc/ld.so.conf"
ldconfig -r "$root"
rm -rf "$root/var/cache"
