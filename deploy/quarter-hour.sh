#!/usr/bin/env bash
# The broker as one would run it, on this machine, step by step: TLS, tokens, a PostgreSQL store, a provider, metrics with
# Prometheus, and one traced request, from nothing to "why did the agent not see this?" and back to nothing.
#
#   deploy/quarter-hour.sh [DIR]      DIR: where all of it is written; a temporary one where none is named
#
# It needs openssl, PostgreSQL's server programs, and context-broker with its extras server, postgres and traces, on the
# path or in .venv of this checkout. Prometheus is used where it is installed. Each command is shown before it runs.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
[ -x "$here/../.venv/bin/context-broker" ] && PATH="$here/../.venv/bin:$PATH"
[ -x "$(command -v initdb)" ] || PATH="$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)"
for tool in context-broker openssl initdb pg_ctl curl; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 2; }
done

began=$SECONDS
step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
until_true() { for _ in $(seq 150); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done; echo "gave up waiting for: $*" >&2; exit 1; }

# PostgreSQL refuses to run as root.
as=()
if [ "$(id -u)" = 0 ]; then as=(runuser -u postgres --); fi
store=$(mktemp -d) broker_port=$(port) admin_port=$(port) store_port=$(port) spans_port=$(port) prometheus_port=$(port)
if [ "$(id -u)" = 0 ]; then chown postgres "$store"; fi
started=()
stop() {
  for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
  "${as[@]}" pg_ctl --pgdata "$store/data" --mode fast stop >/dev/null 2>&1 || true
  wait
  rm -rf "$store"
}
trap stop EXIT

step "1. Secrets: an authority, the broker's certificate, tokens, the seal key, the store's password"
export STORE_HOST=127.0.0.1:$store_port
run "$here/make-secrets.sh" secrets
cat secrets/broker/auth__principals_file

step "2. A store: PostgreSQL on port $store_port"
install -m 600 secrets/postgres/password "$store/password"
if [ "$(id -u)" = 0 ]; then chown postgres "$store/password"; fi
(cd "$store" && "${as[@]}" initdb --pgdata data --username broker --auth scram-sha-256 --pwfile password >/dev/null)
(cd "$store" && run "${as[@]}" pg_ctl --pgdata data --options "-c listen_addresses=127.0.0.1 -p $store_port -k $store" --log log --wait start | tail -1)
PGPASSWORD=$(cat secrets/postgres/password) createdb --host 127.0.0.1 --port "$store_port" --username broker broker

step "3. The configuration: what differs from the defaults, and nothing secret"
run context-broker config init every-key.toml
cat > broker.toml <<CONFIG
[server]
listen = "127.0.0.1:$broker_port"
[auth]
policy = "tokens"
[store]
kind = "postgresql"
[admin]
listen = "127.0.0.1:$admin_port"
[traces]
collector = "127.0.0.1:$spans_port"
CONFIG
cat broker.toml
run context-broker config check --config broker.toml --secrets secrets/broker
run context-broker config show --config broker.toml --secrets secrets/broker --changed

step "4. A collector of traces (which prints them), the broker, and a provider over this checkout"
python3 "$here/show-spans.py" "127.0.0.1:$spans_port" > spans.txt & started+=($!)
context-broker serve --config broker.toml --secrets secrets/broker 2> broker.log & broker=$!; started+=("$broker")
export CONTEXT_BROKER_ADDRESS=127.0.0.1:$broker_port CONTEXT_BROKER_TLS_CA=$folder/secrets/clients/ca.pem
run context-broker health --wait 30
context-broker provide files "$here/.." --token-file secrets/clients/provider.token > provider.log 2>&1 & started+=($!)
attached() { context-broker providers --json --token-file secrets/clients/operator.token | grep -q '"instance"'; }
until_true attached
run context-broker providers --token-file secrets/clients/operator.token

step "5. Without a token, nothing"
run context-broker query "anything" --max-tokens 500 || true

step "6. A question, traced and recorded"
export CONTEXT_BROKER_TOKEN_FILE=$folder/secrets/clients/orchestrator.token
run context-broker query "How are frames placed in a prompt?" --max-tokens 900 --json > answer.jsonl
id=$(sed -n 's/.*"composition_id": "\([^"]*\)".*/\1/p' answer.jsonl | head -1)
echo "composition $id"
until_true grep -q Compose spans.txt
cat spans.txt
grep '"event": "composition"' broker.log | tail -1

step "7. Why did the agent not see this?"
run context-broker compositions list --since 1h
left_out=$(sed -n 's/.*"frame_id": "\([^"]*\)".*"reason": "OVER_BUDGET".*/\1/p' answer.jsonl | head -1)
if [ -n "$left_out" ]; then run context-broker explain "$id" --frame "files/$left_out"; fi
run context-broker providers stats --since 1h

step "8. Metrics"
curl --silent --fail "http://127.0.0.1:$admin_port/metrics" | grep -E '^context_broker_(ready|compositions_total|lanes_total|store_away|frames_total)'
run context-broker top --admin "127.0.0.1:$admin_port" --times 1
if command -v prometheus >/dev/null; then
  cp "$here/prometheus/alerts.yaml" .
  cat > prometheus.yml <<PROMETHEUS
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: context-broker
    static_configs: [{targets: ["127.0.0.1:$admin_port"]}]
PROMETHEUS
  prometheus --config.file=prometheus.yml --storage.tsdb.path=metrics --web.listen-address="127.0.0.1:$prometheus_port" \
    > prometheus.log 2>&1 & started+=($!)
  ask() { curl --silent --fail --get "http://127.0.0.1:$prometheus_port/api/v1/query" --data-urlencode "query=$1"; }
  scraped() { ask 'count_over_time(up{job="context-broker"}[1m]) >= 3' | grep -q '"value"'; }
  until_true scraped
  for _ in 1 2 3; do context-broker query "What is a lane?" --max-tokens 500 --json > /dev/null; done
  sleep 2
  python3 "$here/ask-panels.py" "$here/grafana/context-broker.json" "http://127.0.0.1:$prometheus_port"
  echo "alerts: $(ask 'count(ALERTS)' | sed -n 's/.*"value":\[[^,]*,"\([^"]*\)".*/\1/p' | grep . || echo none)"
else
  echo "(prometheus is not installed here: its part is left out)"
fi

step "9. A change without a restart: SIGHUP takes what it can, all or nothing"
printf '[limits]\nmax_tokens = 2000\n' >> broker.toml
run kill -HUP "$broker"
until_true grep -q 'configuration was read again' broker.log
grep 'was read again' broker.log | tail -1
run context-broker query "anything" --max-tokens 3000 || true

step "10. The end: what runs finishes, and the exit code is 0"
run kill -TERM "$broker"
code=0
wait "$broker" || code=$?
echo "exit code $code"
printf '\nAll of it took %d s; everything but the store is in %s\n' $((SECONDS - began)) "$folder"
exit "$code"
