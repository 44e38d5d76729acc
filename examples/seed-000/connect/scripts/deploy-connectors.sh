#!/bin/bash
# Waits for the REST API of the worker, then creates each connector of connector_config_dir, or changes it to what its
# file says. The compose file sets all variables.

set -e

echo "[INFO] Waiting for the REST API"
timeout 30s bash -c "
    until curl -IL --silent -u ${CONNECT_USERNAME}:${CONNECT_PASSWORD} --insecure ${CONNECT_REST_API} | grep HTTP | grep -q 200; do
        echo \"[INFO] The REST API does not answer yet\"
        sleep 2
    done
"

for connector_config_file in "${connector_config_dir}"/*json; do

    connector_name=$(basename "$connector_config_file" | sed 's/.json//')
    echo "[INFO] Deploying $connector_name"

    curl -X PUT -H "Content-Type: application/json" \
        -u ${CONNECT_USERNAME}:${CONNECT_PASSWORD} \
        -s -S -i \
        --fail-with-body --retry 3 --retry-delay 5 --retry-connrefused --connect-timeout 10 \
        --data @${connector_config_file} \
        ${CONNECT_REST_API}/connectors/${connector_name}/config || \
        (echo "[ERROR] $connector_name was not deployed"; exit 1)
done

echo "[INFO] All connectors are deployed"
