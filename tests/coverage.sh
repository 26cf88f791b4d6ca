#!/bin/sh
# Lines and branches that tests reach, child processes too: coverage.sh VENV [PYTEST-ARGUMENT]...
# The launcher runs Python without site packages, in which nothing can be measured.  So the tests run in a copy of the
# checkout whose launcher finds another Python, which drops -I and -S.  Tests that look at just that fail there: this
# measures, and `make test` judges.
set -eu
venv=$(cd "$1" && pwd)
shift
tree=build/coverage
rm -rf "$tree"
mkdir -p "$tree/build/coverage"
git ls-files -z --cached --others --exclude-standard | cpio -0pdm --quiet "$tree"
cd "$tree"
cat >build/python <<END
#!/bin/sh
[ "\$1" != -I ] || shift
[ "\$1" != -S ] || shift
exec "$venv/bin/python" "\$@"
END
chmod +x build/python
printf '# shellcheck shell=sh\nfind_python() { python=%s/build/python; }\n' "$PWD" >hugealign/sh/python.sh
"$venv/bin/python" -m coverage run -m pytest -q -p no:cacheprovider -m 'not matrix and not kernels' "$@" ||
    echo 'coverage.sh: some tests failed; what they reached counts all the same'
"$venv/bin/python" -m coverage combine -q
"$venv/bin/python" -m coverage report --skip-covered --show-missing
