#!/bin/sh
# Makes a certificate for a trial: certificates/front.pem and front.key, for the name in $1 (localhost). In real use, put the
# files of your authority there.
set -eu
name=${1:-localhost}
folder=${2:-$(dirname "$0")/certificates}
mkdir -p "$folder"
umask 077
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
  -subj "/CN=$name" -addext "subjectAltName=DNS:$name,IP:127.0.0.1" \
  -keyout "$folder/front.key" -out "$folder/front.pem" 2>/dev/null
# Everybody may read the certificate.
chmod 644 "$folder/front.pem"
