#!/usr/bin/env bash
# Tests the archive of scripts/gpu-check/build: unpacks it in an empty folder and runs
# it with the simulated driver and the plainest tools, without any MPI, Go or compiler.
set -euo pipefail

root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
"$root/scripts/gpu-check/build"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/driver" "$tmp/bin" "$tmp/home" "$tmp/empty"
simulated=$root/internal/cudasim/testdata
"${CC:-gcc}" -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 -I "$simulated/include" -o "$tmp/driver/libcuda.so.1" "$simulated/cudasim.c" -lpthread
for tool in basename bash cat cut date dirname env getconf grep head mkdir mktemp nproc readlink rm sed sh sort tail timeout tr uname wc; do
	ln -s "$(command -v "$tool")" "$tmp/bin/$tool"
done
tar xzf "$root/bin/mpi4go-gpu-check.tar.gz" -C "$tmp/empty"
cd "$tmp/empty"
code=0
env -i HOME="$tmp/home" PATH="$tmp/bin" TMPDIR="$tmp" \
	./mpi4go-gpu-check/run --quick --driver "$tmp/driver/libcuda.so.1" "$tmp/results" || code=$?
if ((code)); then
	tail -n 30 "$tmp"/results/logs/*.log
elif command -v python3 >/dev/null; then
	python3 - "$tmp/results/results.json" <<-'EOT'
		import json, sys
		results = json.load(open(sys.argv[1]))
		assert results["failures"] == 0, results["failures"]
		paths = {}
		for m in results["measurements"]:
		    for row in m["report"]["rows"]:
		        if "path" in row and row["size"] > 0:
		            kind, memory, way, placement = m["name"].split()
		            paths.setdefault((kind == "multi", way), set()).add(row["path"])
		# Frames that come from host memory in the header of a message are staged into device memory.
		assert paths.pop((True, "direct")) <= {"direct", "direct+staged"}, paths
		assert paths == {(False, "direct"): {"direct"}, (False, "staged"): {"staged"}, (True, "staged"): {"staged"}}, paths
		print("results.json:", len(results["suites"]), "suites,", len(results["measurements"]), "measurements")
	EOT
fi
exit "$code"
