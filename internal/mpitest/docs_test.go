package mpitest_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

// The tests of this file read the pages for users: where their links lead, whether
// the names in them exist, and whether their Go code compiles and runs.

// public are the packages that the pages speak of by their last names.
var public = []string{"coro", "mpicomm", "mem", "gpu", "transport"}

// page is a file of text: Markdown, or the comments of a Go file.
type page struct {
	name  string // relative to the root
	lines []string
}

func (p page) at(line int) string { return fmt.Sprintf("%s:%d", p.name, line+1) }

// pages returns the Markdown of the module, but not the changelog, which may name what is gone.
func pages(t *testing.T) (all []page) {
	root := mpitest.Root(t)
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md" || d.Name() == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(root, file)
		all = append(all, page{filepath.ToSlash(name), strings.Split(string(text), "\n")})
		return err
	}))
	require.NotEmpty(t, all)
	return all
}

// comments returns those of all Go files, each line in its place.
func comments(t *testing.T) (all []page) {
	for _, s := range sources(t) {
		p := page{name: s.folder + "/" + s.name, lines: make([]string, s.set.File(s.file.Pos()).LineCount()+1)}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					p.lines[s.set.Position(c.Pos()).Line-1+i] = line
				}
			}
		}
		all = append(all, p)
	}
	return all
}

var (
	linkInPage = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pathInText = regexp.MustCompile("(?:^|[\\s(`\"])((?:docs|scripts|internal|coro|mpicomm|mem|gpu|transport|cmd|bench|examples|tools|metrics)/[\\w./-]*\\w)")
	notInSlug  = regexp.MustCompile(`[^\w\- ]`)
)

// TestLinks shows that every link in a page, and every path of the module in a page or
// a comment, leads somewhere.
func TestLinks(t *testing.T) {
	mpitest.Alone(t)
	root := mpitest.Root(t)
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	anchors := map[string]bool{} // page#heading, as GitHub makes them
	texts := pages(t)
	for _, p := range texts {
		for _, line := range p.lines {
			if heading := strings.TrimLeft(line, "#"); heading != line {
				slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
				anchors[p.name+"#"+strings.ReplaceAll(slug, " ", "-")] = true
			}
		}
	}
	for _, p := range texts {
		for i, line := range p.lines {
			for _, link := range linkInPage.FindAllStringSubmatch(line, -1) {
				if strings.Contains(link[1], "://") {
					continue
				}
				file, anchor, hasAnchor := strings.Cut(link[1], "#")
				target := p.name
				if file != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(p.name), file))
				}
				if !exists(target) {
					t.Errorf("%s: %s is not there", p.at(i), link[1])
				} else if hasAnchor && !anchors[target+"#"+anchor] {
					t.Errorf("%s: %s has no heading for #%s", p.at(i), target, anchor)
				}
			}
		}
	}
	for _, p := range append(texts, comments(t)...) {
		for i, line := range p.lines {
			for _, m := range pathInText.FindAllStringSubmatch(line, -1) {
				if !exists(m[1]) {
					t.Errorf("%s: %s is not there", p.at(i), m[1])
				}
			}
		}
	}
}

// packages type-checks against the module's packages and what they import.
type packages struct {
	set *token.FileSet
	imp types.Importer
}

func loadPackages(t *testing.T) *packages {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...", "os", "os/signal", "encoding/gob", "net/http")
	list.Dir = mpitest.Root(t)
	list.Stderr = os.Stderr
	text, err := list.Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	set := token.NewFileSet()
	return &packages{set, importer.ForCompiler(set, "gc", func(name string) (io.ReadCloser, error) { return os.Open(files[name]) })}
}

func (ps *packages) public(t *testing.T) map[string]*types.Package {
	found := map[string]*types.Package{}
	for _, name := range public {
		p, err := ps.imp.Import(module + "/" + name)
		require.NoError(t, err)
		found[name] = p
	}
	return found
}

var (
	nameInText   = regexp.MustCompile(`(?:^|[^\w/.])(` + strings.Join(public, "|") + `)\.([A-Z]\w*)`)
	memberInText = regexp.MustCompile(`\b([A-Z]\w*)\.([A-Z]\w*)`)
	testInText   = regexp.MustCompile("`(Test[A-Z]\\w*)`")
)

// TestNames shows that the exported names, and the tests, of which the pages and
// comments speak, exist.
func TestNames(t *testing.T) {
	mpitest.Alone(t)
	packages := loadPackages(t).public(t)
	tests := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() {
				tests[f.Name.Name] = true
			}
		}
	}
	hasMember := func(typeName, member string) (known, found bool) {
		for _, p := range packages {
			if object, ok := p.Scope().Lookup(typeName).(*types.TypeName); ok {
				known = true
				part, _, _ := types.LookupFieldOrMethod(types.NewPointer(object.Type()), true, p, member)
				iface, _, _ := types.LookupFieldOrMethod(object.Type(), true, p, member)
				found = found || part != nil || iface != nil
			}
		}
		return known, found
	}
	for _, p := range append(pages(t), comments(t)...) {
		for i, line := range p.lines {
			for _, m := range nameInText.FindAllStringSubmatch(line, -1) {
				if packages[m[1]].Scope().Lookup(m[2]) == nil {
					t.Errorf("%s: there is no %s.%s", p.at(i), m[1], m[2])
				}
			}
			if strings.HasPrefix(p.name, "internal/") {
				continue // has types of the same names
			}
			for _, m := range memberInText.FindAllStringSubmatch(line, -1) {
				if known, found := hasMember(m[1], m[2]); known && !found {
					t.Errorf("%s: %s has no %s", p.at(i), m[1], m[2])
				}
			}
			for _, m := range testInText.FindAllStringSubmatch(line, -1) {
				if !tests[m[1]] {
					t.Errorf("%s: there is no test %s", p.at(i), m[1])
				}
			}
		}
	}
}

// snippet is the Go code of a page between two fences.
type snippet struct {
	where string
	code  string
}

func (s snippet) isProgram() bool {
	return strings.HasPrefix(s.code, "package ") || strings.HasPrefix(s.code, "//") && strings.Contains(s.code, "\npackage ")
}

func (p page) snippets() (all []snippet) {
	inside := false
	for i, line := range p.lines {
		switch {
		case line == "```go":
			inside = true
			all = append(all, snippet{where: p.at(i)})
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			all[len(all)-1].code += line + "\n"
		}
	}
	return all
}

// packageSnippets are the code blocks of the packages' comments.
func packageSnippets(t *testing.T) (all []snippet) {
	for _, s := range sources(t) {
		if s.name != "doc.go" || !slices.Contains(public, s.folder) {
			continue
		}
		var parser comment.Parser
		for _, block := range parser.Parse(s.file.Doc.Text()).Content {
			if code, ok := block.(*comment.Code); ok {
				all = append(all, snippet{s.at(s.file), code.Text})
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// imported are the packages that a snippet which is no program may use without saying so.
var imported = []string{"bytes", "context", "encoding/gob", "errors", "fmt", "log", "net/http", "os", "slices", "strings", "sync", "time"}

// asFunction makes a function of a snippet that is no program. It has a context and a
// communicator, and may return an error. A line of three dots stands for what is left out.
func (s snippet) asFunction(name string) string {
	code := regexp.MustCompile(`(?m)^\s*\.\.\.(\s*//.*)?$`).ReplaceAllString(s.code, "")
	return "func " + name + "(ctx context.Context, c *mpicomm.Comm) error {\n" + code + "\nreturn nil\n}\n"
}

// header is the beginning of a file of functions that uses packages as the code does.
func header(t *testing.T, name, code string) string {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, 0)
	require.NoError(t, err, code)
	used := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil { // no variable
				used[x.Name] = true
			}
		}
		return true
	})
	text := "package " + name + "\nimport (\n"
	for _, p := range imported {
		if used[p[strings.LastIndex(p, "/")+1:]] {
			text += fmt.Sprintf("%q\n", p)
		}
	}
	for _, p := range public {
		if used[p] {
			text += fmt.Sprintf("%q\n", module+"/"+p)
		}
	}
	return text + ")\n" + code
}

// TestSnippetTypes shows that the Go code of all pages and package comments uses what exists as it may be
// used. Other code than programs may be part of something: it may use variables that it does not
// declare, and leave unused those that it does.
func TestSnippetTypes(t *testing.T) {
	mpitest.Alone(t)
	packages := loadPackages(t)
	aPart := regexp.MustCompile(`^undefined: [a-z]\w*$|^declared and not used|^no new variables`)
	all := packageSnippets(t)
	for _, p := range pages(t) {
		all = append(all, p.snippets()...)
	}
	for _, s := range all {
		code := s.code
		if !s.isProgram() {
			code = header(t, "p", s.asFunction("f"))
		}
		file, err := parser.ParseFile(packages.set, s.where, code, 0)
		require.NoError(t, err)
		check := types.Config{Importer: packages.imp, Error: func(err error) {
			e := err.(types.Error)
			if s.isProgram() || !aPart.MatchString(e.Msg) {
				t.Errorf("%s: %s", s.where, e.Msg)
			}
		}}
		_, _ = check.Check("p", packages.set, []*ast.File{file}, nil)
	}
}

// running are the pages whose snippets are run by two ranks, one after the other.
var running = []string{"README.md", "docs/quick-start.md", "docs/from-mpi4py.md"}

var prints = regexp.MustCompile("(?m)// prints (.*)$|^It prints `(.*)`")

// TestSnippets builds the Go code of some pages and runs it. What a comment says that it
// prints, it prints.
func TestSnippets(t *testing.T) {
	mpitest.Alone(t)
	root := mpitest.Root(t)
	var programs, want []string // binaries, and lines of their output
	build := func(where, code string) {
		dir := t.TempDir()
		file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
		require.NoError(t, os.WriteFile(file, []byte(code), 0o666))
		cmd := exec.Command("go", "build", "-o", program, file)
		cmd.Dir = root // of the module whose packages it imports
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", where, text)
		programs = append(programs, program)
	}
	for _, p := range pages(t) {
		if !slices.Contains(running, p.name) {
			continue
		}
		var functions, calls bytes.Buffer
		for _, m := range prints.FindAllStringSubmatch(strings.Join(p.lines, "\n"), -1) {
			want = append(want, m[1]+m[2])
		}
		for i, s := range p.snippets() {
			if s.isProgram() {
				build(s.where, s.code)
				continue
			}
			name := fmt.Sprintf("snippet%d", i)
			functions.WriteString(s.asFunction(name))
			fmt.Fprintf(&calls, "run(%q, %s)\n", s.where, name)
		}
		if functions.Len() == 0 {
			continue
		}
		build(p.name, header(t, "main", functions.String()+fmt.Sprintf(`
func run(where string, snippet func(context.Context, *mpicomm.Comm) error) {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	c, err := mpicomm.World().Dup(ctx)
	if err == nil {
		err = snippet(ctx, c)
	}
	if err != nil {
		fmt.Println(where, err)
		mpicomm.Abort(1)
	}
}

func main() {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		log.Fatal(err)
	}
	%s
	if err := mpicomm.Finalize(); err != nil {
		log.Fatal(err)
	}
}
`, calls.String())))
	}
	require.GreaterOrEqual(t, len(programs), len(running))
	require.Greater(t, len(want), 20)
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		output := ""
		for _, program := range programs {
			r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "exec", Env: []string{envExec + "=" + program}}.Run(t)
			require.Equal(t, 0, r.Code)
			output += r.Output
		}
		for _, line := range want {
			require.Contains(t, output, line+"\n")
		}
	})
}
