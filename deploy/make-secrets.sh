#!/usr/bin/env bash
# Makes everything that a first installation keeps secret, in a directory of its own: an authority for TLS with a
# certificate of the broker's, bearer tokens for a provider, an orchestrator, an operator, a key for seals, and an
# address of a PostgreSQL store. Files that are there already are kept, so that it may run again.
#
#   deploy/make-secrets.sh DIR [NAME …]     NAMEs: further hosts that the broker's certificate is for
#
# It needs openssl and sha256sum. The authority is for a try and for machines of your own: in a company, have the
# certificate made by whatever makes certificates there.
set -euo pipefail
umask 077

directory=${1:?"give the directory to write to"}
shift
mkdir -p "$directory"/{broker,clients,postgres}
cd "$directory"

make() { [ -s "$1" ] || { "${@:2}" > "$1.new" && mv "$1.new" "$1"; }; }
random() { openssl rand -base64 32 | tr '+/' '-_' | tr -d '=\n'; }

# The authority, and the broker's certificate. Whoever asks the broker needs ca.pem, and nobody needs ca.key but this script.
if [ ! -s ca.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=context-broker authority" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" -keyout ca.key -out ca.pem 2>/dev/null
fi
cp ca.pem clients/ca.pem
if [ ! -s broker/server__tls_cert ]; then
  names="DNS:localhost,IP:127.0.0.1,DNS:broker,DNS:context-broker"
  for name in "$@"; do names+=",DNS:$name"; done
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=context-broker" \
    -keyout broker/server__tls_key -out broker.csr 2>/dev/null
  openssl x509 -req -in broker.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -out broker/server__tls_cert \
    -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names") 2>/dev/null
  rm -f broker.csr
fi

# What says who may call. The broker keeps hashes of tokens alone; the tokens go to those who show them.
principals=broker/auth__principals_file
tokens=broker/auth__tokens_file
if [ ! -s "$tokens" ]; then
  : > "$tokens.new"
  : > "$principals.new"
  for who in provider orchestrator operator; do
    token="cbt_$(random)"
    printf '%s\n' "$token" > "clients/$who.token"
    printf 'sha256:%s %s\n' "$(printf %s "$token" | sha256sum | cut -d' ' -f1)" "$who" >> "$tokens.new"
    printf '[[principals]]\nsubject = "%s"\nrole = "%s"\n' "$who" "$who" >> "$principals.new"
    [ "$who" = provider ] && printf 'providers = ["files", "symbols", "history"]\n' >> "$principals.new"
    printf '\n' >> "$principals.new"
  done
  mv "$principals.new" "$principals"
  mv "$tokens.new" "$tokens"
fi

# The key of the seals in prompts: the same for all replicas.
make broker/render__seal_key_file openssl rand -hex 32

# The store's password, and the address that holds it.
make postgres/password random
make broker/store__dsn_file printf 'postgresql://broker:%s@%s/broker' "$(cat postgres/password)" "${STORE_HOST:-postgres:5432}"

echo "$PWD: broker/ is the directory for 'context-broker serve --secrets', clients/ holds ca.pem and the tokens"
