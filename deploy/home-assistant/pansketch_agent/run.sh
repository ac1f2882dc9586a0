#!/bin/sh
# Starts the agent with the options of Home Assistant, which are in /data/options.json. State is
# kept in /data: write `state: "${VAR}"` in the configuration.
set -eu
export VAR="${VAR:-/data}"
option() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$VAR/options.json" "$1"
}
DEVICE=$(option device)
export DEVICE
cd "${CONFIG_FOLDER:-/config}"
exec pansketch-agent run --config "$(option config)" "$@"
