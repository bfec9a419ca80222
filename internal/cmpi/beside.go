package cmpi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// programs are the processes that start ranks, of the MPIs of a family. One of
// them is above each rank, and on each host.
var programs = map[string][]string{
	"openmpi": {"orterun", "orted", "prterun", "prted", "prte", "mpirun", "mpiexec"},
	"mpich":   {"hydra_pmi_proxy", "mpispawn"},
}

// libraryDirs are the folders in which the launcher's own libraries lie, if it
// was installed into a folder of its own: then the library that the loader finds
// may be that of another MPI that understands the same launcher.
func (l Launcher) libraryDirs() []string {
	for pid := os.Getppid(); pid > 1; pid = parent(pid) {
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || !slices.Contains(programs[l.Family], filepath.Base(program)) {
			continue
		}
		prefix := filepath.Dir(filepath.Dir(program))
		return []string{filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"), filepath.Join(prefix, "lib", "release")}
	}
	return nil
}

// parent is the parent of a process, 0 if that is gone.
func parent(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if ppid, ok := strings.CutPrefix(line, "PPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(ppid))
			return n
		}
	}
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
