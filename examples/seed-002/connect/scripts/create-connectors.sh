#!/bin/bash
# Creates each missing connector of connector_config_dir, once the worker is healthy.

set -e

until curl --silent --fail --output /dev/null "$CONNECT_REST_API/health"; do
    echo "[INFO] The worker is not healthy yet"
    sleep 2
done

for file in "$connector_config_dir"/*.json; do
    status=$(curl --silent --show-error --output /dev/stderr --write-out '%{http_code}' \
        --request POST "$CONNECT_REST_API/connectors" \
        --header 'Content-Type: application/json' \
        --data-binary "@$file")
    case $status in
        201) echo "[INFO] Created $(basename "$file" .json)" ;;
        409) echo "[INFO] $(basename "$file" .json) is there already" ;;
        *) echo "[ERROR] $(basename "$file" .json) was answered with $status"; exit 1 ;;
    esac
done

echo "[INFO] All connectors are there"
