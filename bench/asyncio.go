package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed mpi4dask_style.py
var script string

// asyncio returns the one-way latency in microseconds of MPI4Dask's coroutine:
// mpi4py's Isend and Irecv, tested between asyncio.sleep(0).
func asyncio(mpi string) (float64, error) {
	python, err := filepath.Abs(filepath.Join(options.Venv, "bin", "python"))
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(python); err != nil {
		return 0, fmt.Errorf("mpi4py is not installed: run scripts/setup bench first (%w)", err)
	}
	command := exec.Command("mpirun."+mpi, "-n", "2", python, "-c", script)
	command.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "MPI4PY_MPIABI="+mpi)
	if mpi == "mpich" { // mpi4py looks for it under its upstream name
		links, err := filepath.Abs(options.Links)
		if err != nil {
			return 0, err
		}
		command.Env = append(command.Env, "LD_LIBRARY_PATH="+links)
	}
	var out, diagnostics bytes.Buffer
	command.Stdout, command.Stderr = &out, &diagnostics
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", command.Args[:4], err, diagnostics.String())
	}
	return strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
}
