#!/bin/sh -eu
# Build kubelet and a control plane into build/kubernetes, for test_kubernetes.py.  Debian has neither; they come from
# Go's module proxy.  Needs Go 1.24 or newer, a network, and a quarter of an hour on two cores.
#
#   sh tests/live/kubernetes.sh [VERSION]
version=${1-1.34.4}
cd "$(dirname "$0")/../.."
mkdir -p build/kubernetes/source
cd build/kubernetes/source
export CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath -buildvcs=false'
printf 'module kubernetes\n\ngo 1.24\n' >go.mod
rm -f go.sum
go mod download "k8s.io/kubernetes@v$version"
source=$(go env GOMODCACHE)/k8s.io/kubernetes@v$version
cp "$source/go.sum" go.sum
chmod u+w go.sum
# Its go.mod names the modules that are developed with it by their directories; published, they have versions.
python3 - "$source/go.mod" "$version" >go.mod <<'END'
import re
import sys

text, (_, minor, patch) = open(sys.argv[1], encoding="utf-8").read(), sys.argv[2].split(".")
text = re.sub(r"(?ms)^replace \(.*?^\)", "", text)
text = re.sub(r"(?m)^module .*$", "module kubernetes", text)
text = re.sub(r"(?m)^(\s*k8s\.io/[\w-]+) v0\.0\.0$", rf"\1 v0.{minor}.{patch}", text)
print(text.replace("require (", f"require (\n\tk8s.io/kubernetes v{sys.argv[2]}", 1))
END
for name in kubelet kube-apiserver kube-controller-manager kube-scheduler; do
    go build -ldflags='-s -w' -o .. "k8s.io/kubernetes/cmd/$name"
done
