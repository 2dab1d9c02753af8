# SPDX-License-Identifier: Apache-2.0
#
# Runs as the first process of a node, in fresh network, mount and UTS
# namespaces, and turns the machine's file tree into the node's: its own /run,
# /var/lib and /var/log, a /sys that shows its own network, and the control
# group hierarchies. Then it stays, so that the namespaces do.
#
# Environment: NODE_NAME, NODE_DIR (absolute), CGROUP (the node's folder name in
# each hierarchy), CGROUP_V1 (1 or 0), DUAL_STACK (1 or 0).
set -euo pipefail

mount --make-rprivate /
hostname "$NODE_NAME"

# A fresh sysfs hides the cgroup mounts below it: gather them elsewhere first.
tree=$NODE_DIR/cgroup
mkdir -p "$tree"
if [ "$CGROUP_V1" = 1 ]; then
  mount -t tmpfs -o mode=755 tmpfs "$tree"
  for entry in /sys/fs/cgroup/*; do
    name=${entry##*/}
    if [ -L "$entry" ]; then
      cp -P "$entry" "$tree/$name"
    elif [ "$name" != unified ] && mountpoint -q "$entry"; then
      mkdir "$tree/$name"
      mount --bind "$entry" "$tree/$name"
    fi
  done
  # Pods with huge pages need this controller; it is free when version 2 has it idle.
  if [ ! -e "$tree/hugetlb" ]; then
    mkdir "$tree/hugetlb"
    mount -t cgroup -o hugetlb hugetlb "$tree/hugetlb" 2>/dev/null || rmdir "$tree/hugetlb"
  fi
else
  mount --bind /sys/fs/cgroup "$tree"
fi
mount -t sysfs sysfs /sys
# A file system of its own for pinned eBPF objects: nodes share the kernel, not these.
mount -t bpf bpf /sys/fs/bpf
mount --rbind "$tree" /sys/fs/cgroup

# cpuset folders start empty and refuse processes until they name CPUs and memory.
if [ "$CGROUP_V1" = 1 ]; then
  for h in /sys/fs/cgroup/*/; do
    dir=${h%/}
    for part in ${CGROUP//\// }; do
      parent=$dir
      dir=$dir/$part
      mkdir -p "$dir"
      # On a machine of its own all pods together weigh about as much as all daemons. Here the daemons of every node are
      # single processes at the top of version 1 hierarchies, each of which would weigh as much as the pods of all nodes.
      if [ -f "$dir/cpu.shares" ]; then
        echo 8192 >"$dir/cpu.shares"
      fi
      if [ -f "$dir/cpuset.cpus" ]; then
        [ -n "$(cat "$dir/cpuset.cpus")" ] || cat "$parent/cpuset.cpus" >"$dir/cpuset.cpus"
        [ -n "$(cat "$dir/cpuset.mems")" ] || cat "$parent/cpuset.mems" >"$dir/cpuset.mems"
        echo 1 >"$dir/cgroup.clone_children"
      fi
    done
  done
fi

mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/containerd /run/netns /run/lock
mount -t tmpfs -o mode=755 tmpfs /var/lib
for d in kubelet containerd cni; do
  mkdir -p "/var/lib/$d" "$NODE_DIR/$d"
  mount --bind "$NODE_DIR/$d" "/var/lib/$d"
done
# Its own /etc over the machine's: the IPAM plugin whereabouts looks for its file there.
mkdir -p "$NODE_DIR/etc-upper/cni/net.d/whereabouts.d" "$NODE_DIR/etc-work"
cp "$NODE_DIR/etc/whereabouts.json" "$NODE_DIR/etc-upper/cni/net.d/whereabouts.d/whereabouts.conf"
mount -t overlay -o "lowerdir=/etc,upperdir=$NODE_DIR/etc-upper,workdir=$NODE_DIR/etc-work" overlay /etc
mkdir -p "$NODE_DIR/log"
mount --bind "$NODE_DIR/log" /var/log
mount --make-rshared /

echo 1 >/proc/sys/net/ipv4/ip_forward
if [ "$DUAL_STACK" = 1 ]; then
  echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
fi
touch "$NODE_DIR/ready"
exec sleep infinity
