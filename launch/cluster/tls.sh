# Sourced with a folder: Dask uses the key and the certificate in its pair.pem,
# which is made the first time. Whoever can read it can run code on the cluster.
# All machines of the cluster, and the one that drives it, need the same file.
#
#   source launch/cluster/tls.sh ~/.config/wm-tls
# shellcheck shell=bash
wm_tls=${1:?a folder for pair.pem}/pair.pem
if [ ! -f "$wm_tls" ]; then
  ( # Several machines may do this at once: the first link counts.
    umask 077
    mkdir -p "${wm_tls%/*}"
    new=$wm_tls.$(hostname).$$
    if openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj /CN=wm \
      -keyout "$new" -out "$new" 2>/dev/null; then
      ln "$new" "$wm_tls" 2>/dev/null || true
    fi
    rm -f "$new"
    [ -f "$wm_tls" ] || { echo "tls.sh: openssl made no $wm_tls" >&2 && false; }
  )
fi
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE="$wm_tls"
for wm_role in SCHEDULER WORKER CLIENT; do
  export "DASK_DISTRIBUTED__COMM__TLS__${wm_role}__CERT=$wm_tls"
  export "DASK_DISTRIBUTED__COMM__TLS__${wm_role}__KEY=$wm_tls"
done
