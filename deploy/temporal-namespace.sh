#!/bin/sh
# The namespace, unless it is there. Its retention is how long closed invocations can be looked at.
set -eu

until temporal operator cluster health; do
  sleep 2
done
temporal operator namespace describe --namespace "$NAMESPACE" ||
  temporal operator namespace create --namespace "$NAMESPACE" --retention "$RETENTION"
