package mpitest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

// The tests of this file look at the source of the whole module: who imports
// whom, and whether everything exported is documented.

const module = "github.com/mpi4go/mpi4go"

// mayImport says for each package which others of the module it imports. They
// travel in one direction: a message goes down once, its completion up once.
var mayImport = map[string][]string{
	"internal/cmpi":     {},
	"internal/cuda":     {},
	"internal/cudasim":  {"internal/cuda"},
	"mem":               {},
	"internal/wire":     {},
	"internal/inner":    {"internal/device", "internal/wire", "mem"},
	"internal/progress": {"internal/cmpi", "mem"},
	"internal/device":   {"mem"},
	"mpicomm":           {"internal/cmpi", "internal/progress", "internal/inner", "internal/device", "internal/wire", "mem"},
	"coro":              {"mpicomm", "internal/inner", "internal/device", "internal/wire", "mem"},
	"transport":         {"coro", "mpicomm", "internal/inner", "internal/wire", "mem"},
	"gpu":               {"internal/cuda", "internal/device", "mem"},
	"internal/pattern":  {"gpu", "internal/cuda"},
	"internal/mpitest":  {"internal/cmpi", "internal/cuda", "internal/cudasim", "mpicomm", "coro"},
}

// programs may import everything but what follows.
var (
	programs = []string{"cmd", "bench", "examples", "tools"}
	testOnly = []string{"internal/mpitest", "internal/cudasim", "github.com/stretchr/testify"}
	mayUseC  = []string{"internal/cmpi", "internal/cuda"}
)

// source is one file of the module.
type source struct {
	folder, name string
	file         *ast.File
	set          *token.FileSet
}

// sources parses every Go file of the module, but not those of other modules
// below it, nor of hidden folders.
func sources(t *testing.T) (all []source) {
	root := mpitest.Root(t)
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || hasModule(file)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		all = append(all, source{filepath.ToSlash(folder), name, parsed, set})
		return err
	}))
	require.NotEmpty(t, all)
	return all
}

func hasModule(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return len(found) > 0
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s source) at(n ast.Node) string {
	return path.Join(s.folder, s.name) + ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
}

func (s source) isProgram() bool {
	first, _, _ := strings.Cut(s.folder, "/")
	return slices.Contains(programs, first)
}

func TestImportDirection(t *testing.T) {
	mpitest.Alone(t)
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		allowed, known := mayImport[s.folder]
		if !known && !s.isProgram() {
			t.Errorf("%s: the table mayImport does not say what package %s may import", s.at(s.file), s.folder)
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			inside, isInside := strings.CutPrefix(name, module+"/")
			switch {
			case name == "C" && !slices.Contains(mayUseC, s.folder):
				t.Errorf("%s: only %v may import C", s.at(spec), mayUseC)
			case !slices.Contains(testOnly, s.folder) && slices.ContainsFunc(testOnly, func(p string) bool { return inside == p || strings.HasPrefix(name, p) }):
				t.Errorf("%s: only tests may import %s", s.at(spec), name)
			case isInside && known && !slices.Contains(allowed, inside):
				t.Errorf("%s: package %s may import %v, not %s", s.at(spec), s.folder, allowed, inside)
			}
		}
	}
}

// TestImportTable shows that the table itself has one direction.
func TestImportTable(t *testing.T) {
	mpitest.Alone(t)
	var visit func(folder string, above []string)
	visit = func(folder string, above []string) {
		require.NotContains(t, above, folder)
		for _, below := range mayImport[folder] {
			visit(below, append(above, folder))
		}
	}
	for folder := range mayImport {
		visit(folder, nil)
	}
	require.NotContains(t, mayImport["mpicomm"], "gpu")
	require.NotContains(t, mayImport["gpu"], "mpicomm")
}

// TestDocumentation shows that every package, and everything that it exports, is
// documented.
func TestDocumentation(t *testing.T) {
	mpitest.Alone(t)
	documented := map[string]bool{}
	var folders []string
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		folders = append(folders, s.folder)
		if s.file.Doc != nil {
			documented[s.folder] = true
		}
		if strings.HasPrefix(s.folder, "internal/") || s.file.Name.Name == "main" {
			continue
		}
		for _, decl := range s.file.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s: %s has no comment", s.at(decl), name)
			}
		}
	}
	for _, folder := range folders {
		require.True(t, documented[folder], "package %s has no comment", folder)
	}
}

// undocumented lists the exported names that a declaration introduces without a
// comment: their own, the one of their group, or one at the end of the line.
func undocumented(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// exportedReceiver tells whether a function is none of an unexported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

// TestNoParallelTests shows that no test runs beside others: every rank has to
// run the same tests in the same order.
func TestNoParallelTests(t *testing.T) {
	mpitest.Alone(t)
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && s.isTest() {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Parallel" {
					t.Errorf("%s: no test may run in parallel", s.at(n))
				}
			}
			return true
		})
	}
}
