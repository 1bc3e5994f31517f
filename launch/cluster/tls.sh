# Sourced with a folder: Dask uses the key and the certificate in it, which are
# made at the first time. Whoever can read the folder can run code on the
# cluster. All its machines, and the one that drives it, need the same folder.
#
#   source launch/cluster/tls.sh ~/.config/wm-tls
# shellcheck shell=bash
wm_tls=${1:?a folder for key.pem and cert.pem}
if [ ! -f "$wm_tls/cert.pem" ]; then
  (
    umask 077
    mkdir -p "$wm_tls"
    openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj /CN=wm \
      -keyout "$wm_tls/key.pem" -out "$wm_tls/cert.new" 2>/dev/null
    mv "$wm_tls/cert.new" "$wm_tls/cert.pem"
  )
fi
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE="$wm_tls/cert.pem"
for wm_role in SCHEDULER WORKER CLIENT; do
  export "DASK_DISTRIBUTED__COMM__TLS__${wm_role}__CERT=$wm_tls/cert.pem"
  export "DASK_DISTRIBUTED__COMM__TLS__${wm_role}__KEY=$wm_tls/key.pem"
done
