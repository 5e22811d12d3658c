#!/bin/sh
# The installer's contract of get.k3s.io, for the machines of the ccm-from-scratch sandbox:
#   curl -sfL URL/install.sh | [INSTALL_K3S_...] [K3S_...] sh -s - [server|agent] [FLAGS]
# The program comes from the server that this file came from.
set -e
set -o noglob

DATA=/var/lib/rancher/k3s/data
PROGRAMS=/usr/local/lib/kubernetes/bin
BASE_URL='@BASE_URL@'
# The releases that are served, the newest minor version's last; none where it is one genuine program.
RELEASES='@RELEASES@'
DEFAULT='@DEFAULT@'

info() { echo '[INFO] ' "$@"; }
warn() { echo '[WARN] ' "$@" >&2; }
fatal() { echo '[ERROR] ' "$@" >&2; exit 1; }

# One word of a command line, quoted for a shell and for a unit file.
quote() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

# INSTALL_K3S_EXEC is split into words as a shell does it, at ends of lines, too. As in the original, what else
# means something to a shell means itself; between quotes it gets a backslash.
escape() { printf '%s' "$1" | sed 's/[][!#$%&()*;<=>?\\_`{|}]/\\&/g'; }

choose_command() {
  case "${1:-}" in
    ''|-*)
      if [ -n "${K3S_URL:-}" ]; then
        [ -n "${K3S_TOKEN:-}${K3S_TOKEN_FILE:-}" ] || fatal 'Defaulted k3s exec command to "agent" because K3S_URL is defined, but K3S_TOKEN or K3S_TOKEN_FILE is not defined.'
        COMMAND=agent
      else
        COMMAND=server
      fi ;;
    server|agent) COMMAND=$1 ;;
    *) fatal "unknown command $1: the installer knows server and agent" ;;
  esac
  case "${K3S_URL:-}" in
    ''|https://*) ;;
    *) fatal "Only https:// URLs are supported for K3S_URL (have $K3S_URL)" ;;
  esac
}

set_names() {
  if [ -n "${INSTALL_K3S_NAME:-}" ]; then NAME=k3s-$INSTALL_K3S_NAME
  elif [ "$COMMAND" = server ]; then NAME=k3s
  else NAME=k3s-agent; fi
  BIN=${INSTALL_K3S_BIN_DIR:-/usr/local/bin}
  UNITS=${INSTALL_K3S_SYSTEMD_DIR:-/etc/systemd/system}
  UNINSTALL=$BIN/$NAME-uninstall.sh
  BEFORE=$(hashes)
}

# What decides whether the service is started: the program, the unit, the environment.
hashes() { sha256sum "$BIN/k3s" "$UNITS/$NAME.service" "$UNITS/$NAME.service.env" 2>&1 || true; }

check_wishes() {
  [ "$(id -u)" = 0 ] || fatal 'root is needed: run this as root'
  command -v systemctl >/dev/null || fatal 'systemd is needed to run k3s as a service'
  [ -z "${INSTALL_K3S_COMMIT:-}${INSTALL_K3S_PR:-}" ] || fatal 'INSTALL_K3S_COMMIT and INSTALL_K3S_PR are not supported: this server has one build of k3s'
}

# As in the original, an exact version beats a channel, and without either it is the channel stable. Where a
# channel leads says a server: what its last redirect ends with.
choose_release() {
  RELEASE=
  [ -n "$RELEASES" ] || return 0
  if [ -n "${INSTALL_K3S_VERSION:-}" ]; then
    asked=INSTALL_K3S_VERSION=$INSTALL_K3S_VERSION
    wanted=$INSTALL_K3S_VERSION
  else
    INSTALL_K3S_CHANNEL_URL=${INSTALL_K3S_CHANNEL_URL:-'@BASE_URL@/channels'}
    asked=INSTALL_K3S_CHANNEL=${INSTALL_K3S_CHANNEL:-stable}
    info "Finding release for channel ${INSTALL_K3S_CHANNEL:-stable}"
    channel=$INSTALL_K3S_CHANNEL_URL/${INSTALL_K3S_CHANNEL:-stable}
    wanted=$(last_address "$channel") || fatal "the download of $channel failed"
    wanted=${wanted##*/}
  fi
  for release in $RELEASES; do [ "$release" != "$wanted" ] || RELEASE=$release; done
  [ -n "$RELEASE" ] || fatal "$asked is not to be had here; there are: $RELEASES ('./dev up' builds what else the sandbox knows when the stack's k3sVersion asks for it)"
}

# Where an address leads in the end.
last_address() {
  if command -v curl >/dev/null; then curl -sSL -o /dev/null -w '%{url_effective}' "$1"
  else wget -SqO /dev/null "$1" 2>&1 | grep -i Location; fi
}

fetch() {
  if command -v curl >/dev/null; then curl -sfL --retry 3 -o "$2" "$1" || fatal "the download of $1 failed"
  else wget -qO "$2" "$1" || fatal "the download of $1 failed"; fi
}

# Kubernetes for a release that the machine did not begin with, where k3s, too, keeps the programs that it brings.
download_kubernetes() {
  [ -n "$RELEASE" ] && [ "$RELEASE" != "$DEFAULT" ] || return 0
  programs=$DATA/$RELEASE/bin
  info "Downloading Kubernetes from $BASE_URL/$RELEASE/hyperkube"
  mkdir -p "$programs"
  fetch "$BASE_URL/$RELEASE/hyperkube" "$programs/.hyperkube.download"
  chmod 755 "$programs/.hyperkube.download"
  mv -f "$programs/.hyperkube.download" "$programs/hyperkube"
  for name in $(ls "$PROGRAMS"); do
    if [ "$(readlink "$PROGRAMS/$name")" = hyperkube ]; then ln -sf hyperkube "$programs/$name"
    elif [ "$name" != hyperkube ]; then ln -sf "$PROGRAMS/$name" "$programs/$name"; fi
  done
}

download() {
  if [ "${INSTALL_K3S_SKIP_DOWNLOAD:-}" = true ] || [ "${INSTALL_K3S_SKIP_DOWNLOAD:-}" = binary ]; then
    [ -x "$BIN/k3s" ] || fatal "INSTALL_K3S_SKIP_DOWNLOAD is set but there is no executable k3s at $BIN/k3s"
    info "Skipping the download of k3s"
    return
  fi
  choose_release
  download_kubernetes
  source=$BASE_URL/${RELEASE:+$RELEASE/}k3s
  info "Downloading k3s from $source"
  mkdir -p "$BIN"
  fetch "$source" "$BIN/.k3s.download"
  chmod 755 "$BIN/.k3s.download"
  mv -f "$BIN/.k3s.download" "$BIN/k3s"
  if [ -n "${INSTALL_K3S_VERSION:-}" ]; then
    found=$("$BIN/k3s" --version | sed -n '1s/^k3s version \([^ ]*\).*/\1/p')
    [ "$found" = "$INSTALL_K3S_VERSION" ] || warn "this server has k3s $found; INSTALL_K3S_VERSION=$INSTALL_K3S_VERSION is not to be had here"
  fi
}

link_commands() {
  [ "${INSTALL_K3S_SYMLINK:-}" != skip ] || return 0
  for name in kubectl crictl ctr; do
    if [ "${INSTALL_K3S_SYMLINK:-}" = force ] || { [ ! -e "$BIN/$name" ] && ! command -v $name >/dev/null; }; then
      ln -sf k3s "$BIN/$name"
    fi
  done
}

write_environment() {
  umask 077
  env | grep -E '^(K3S|CONTAINERD)_' | grep -v '^K3S_NODE_NAME=$' | sort > "$UNITS/$NAME.service.env" || true
  env | grep -Ei '^(NO|HTTP|HTTPS)_PROXY=' >> "$UNITS/$NAME.service.env" || true
  umask 022
}

write_unit() {
  cat > "$UNITS/$NAME.service" <<UNIT
[Unit]
Description=Lightweight Kubernetes
Documentation=https://k3s.io
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
Type=${INSTALL_K3S_TYPE:-notify}
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/sysconfig/%N
EnvironmentFile=-$UNITS/$NAME.service.env
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStart=$BIN/k3s $COMMAND $FLAGS
UNIT
}

write_killall() {
  cat > "$BIN/k3s-killall.sh" <<'KILLALL'
#!/bin/sh
# Ends k3s and every container on this machine; data stays.
[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"
for unit in /etc/systemd/system/k3s*.service; do
  [ -e "$unit" ] && systemctl stop "$(basename "$unit")"
done
for shim in $(pgrep -f 'containerd-shim-runc-v2 .*/run/k3s/containerd' || true); do
  kill -9 $(pgrep -P "$shim") "$shim" 2>/dev/null
done
for place in $(awk '{print $2}' /proc/self/mounts | grep -E '^(/run/k3s|/var/lib/kubelet/(pods|plugins)|/run/netns/cni-)' | sort -r); do
  umount -l "$place" 2>/dev/null
done
rm -rf /run/k3s /run/netns/cni-*
ip link delete cni0 2>/dev/null
nft delete table ip k3s 2>/dev/null
nft delete table inet k3s-network-policy 2>/dev/null
rm -rf /var/lib/cni
iptables-save | grep -v KUBE- | grep -v CNI- | iptables-restore
ip6tables-save | grep -v KUBE- | grep -v CNI- | ip6tables-restore
exit 0
KILLALL
  chmod 755 "$BIN/k3s-killall.sh"
}

write_uninstall() {
  cat > "$UNINSTALL" <<UNINSTALL
#!/bin/sh
# Removes k3s from this machine, with all data of the cluster.
[ "\$(id -u)" = 0 ] || exec sudo "\$0" "\$@"
"$BIN/k3s-killall.sh"
systemctl disable -q "$NAME" 2>/dev/null
systemctl reset-failed "$NAME" 2>/dev/null
rm -f "$UNITS/$NAME.service" "$UNITS/$NAME.service.env"
systemctl daemon-reload
rm -f "$UNINSTALL"
for other in $UNITS/k3s*.service; do [ ! -e "\$other" ] || exit 0; done
for name in kubectl crictl ctr; do [ "\$(readlink "$BIN/\$name")" != k3s ] || rm -f "$BIN/\$name"; done
rm -rf /etc/rancher/k3s /var/lib/rancher/k3s /var/lib/kubelet/* /var/log/k3s /etc/cni/net.d/10-k3s.conflist
rm -f "$BIN/k3s" "$BIN/k3s-killall.sh"
exit 0
UNINSTALL
  chmod 755 "$UNINSTALL"
}

start() {
  systemctl daemon-reload
  if [ "${INSTALL_K3S_SKIP_ENABLE:-}" != true ]; then
    info "systemd: Enabling $NAME unit"
    systemctl enable -q "$NAME"
  fi
  [ "${INSTALL_K3S_SKIP_START:-}" != true ] && [ "${INSTALL_K3S_SKIP_ENABLE:-}" != true ] || return 0
  if [ "$BEFORE" = "$(hashes)" ] && [ "${INSTALL_K3S_FORCE_RESTART:-}" != true ]; then
    info 'No change detected so skipping service start'
    return 0
  fi
  info "systemd: Starting $NAME"
  systemctl restart "$NAME"
}

# The arguments come after the words of INSTALL_K3S_EXEC.
ARGUMENTS=$(for word in "$@"; do quote "$word"; printf ' '; done)
eval set -- $(escape "${INSTALL_K3S_EXEC:-}") "$ARGUMENTS"
choose_command "$@"
case "${1:-}" in server|agent) shift ;; esac
FLAGS=$(for word in "$@"; do quote "$word" | sed 's/%/%%/g; s/\$/$$/g'; printf ' '; done)

set_names
check_wishes
download
link_commands
write_killall
write_uninstall
write_environment
write_unit
start
