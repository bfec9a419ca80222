package mpicomm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unsetAll unsets every variable of the settings for the time of a test.
func unsetAll(t *testing.T) {
	for _, s := range new(Config).settings() {
		t.Setenv(s.env, "")
	}
}

// inForce resolves a configuration and finds one setting.
func inForce(t *testing.T, c Config, field string) Setting {
	t.Helper()
	settings, err := c.resolve()
	require.NoError(t, err)
	for _, s := range settings {
		if s.Field == field {
			return s
		}
	}
	t.Fatalf("no setting %s", field)
	return Setting{}
}

// TestDefaults compares the defaults with what the comments of Config promise.
func TestDefaults(t *testing.T) {
	unsetAll(t)
	promised := promisedDefaults(t)
	require.Greater(t, len(promised), 5)
	settings, err := new(Config).resolve()
	require.NoError(t, err)
	for _, s := range settings {
		require.Equal(t, "default", s.Source, s.Field)
		if want, ok := promised[s.Field]; ok {
			require.Equal(t, want, s.Value, s.Field)
		}
	}
}

// TestFamilyDefaults shows that each MPI has plans, which neither the variable nor
// the field lose to.
func TestFamilyDefaults(t *testing.T) {
	unsetAll(t)
	for _, family := range []string{"openmpi", "mpich", "mpiabi"} {
		var c Config
		settings, err := c.resolve()
		require.NoError(t, err)
		c.familyDefaults(family, settings)
		require.NotEmpty(t, c.Plans, family)
		require.Contains(t, settings, Setting{"Plans", "MPI4GO_PLANS", c.Plans, "default"})
		_, err = c.resolve()
		require.NoError(t, err, family)
	}
	c := Config{Plans: "request"}
	settings, err := c.resolve()
	require.NoError(t, err)
	c.familyDefaults("mpich", settings)
	require.Contains(t, settings, Setting{"Plans", "MPI4GO_PLANS", "request", "config"})
}

// promisedDefaults reads the "Zero: 8 ms." of the comments.
func promisedDefaults(t *testing.T) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	promise := regexp.MustCompile(`Zero:\s(\d+)(?:\s(us|ms|s)\b)?|Zero:\sThread(\w+)`)
	promised := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Doc == nil {
			return true
		}
		if m := promise.FindStringSubmatch(field.Doc.Text()); m != nil {
			value := strings.ToLower(m[1] + m[2] + m[3])
			if m[2] != "" {
				d, err := time.ParseDuration(value)
				require.NoError(t, err)
				value = d.String()
			}
			promised[field.Names[0].Name] = value
		}
		return true
	})
	return promised
}

func TestEnvironmentOverField(t *testing.T) {
	unsetAll(t)
	require.Equal(t, Setting{"Spins", "MPI4GO_SPINS", "7", "config"}, inForce(t, Config{Spins: 7}, "Spins"))
	t.Setenv("MPI4GO_SPINS", "9")
	require.Equal(t, Setting{"Spins", "MPI4GO_SPINS", "9", "environment"}, inForce(t, Config{Spins: 7}, "Spins"))
	require.Equal(t, Setting{"Spins", "MPI4GO_SPINS", "9", "environment"}, inForce(t, Config{}, "Spins"))
}

// TestEverySetting sets each field by its variable, and by itself.
func TestEverySetting(t *testing.T) {
	unsetAll(t)
	for field, text := range map[string]string{
		"MPI": "mpich", "ThreadLevel": "multiple", "Exclusive": "true", "GOMAXPROCS": "-1", "Spins": "1048576", "LeadTime": "1ms",
		"IdleNap": "3ms", "CancelTimeout": "2s", "DrainTimeout": "1m0s", "Debug": "true", "Doorbell": "off",
		"Plans": "inline:1K,request", "MaxFrames": "10", "MaxHeader": "5000", "MaxMessage": "77",
		"DeviceMemory": "point-to-point,datatypes", "StagingLimit": "16777216",
	} {
		s := inForce(t, Config{}, field)
		require.Equal(t, "default", s.Source, field)
		t.Setenv(s.Env, text)
		require.Equal(t, Setting{field, s.Env, text, "environment"}, inForce(t, Config{}, field))
		t.Setenv(s.Env, "")
	}
	c := Config{
		MPI: "x", ThreadLevel: ThreadMultiple, Exclusive: true, GOMAXPROCS: 4, Spins: 5, LeadTime: 1, IdleNap: 2, CancelTimeout: 3, DrainTimeout: 4,
		Debug: true, Doorbell: "off", Plans: "request", MaxFrames: 1, MaxHeader: 5000, MaxMessage: 9,
		DeviceMemory: "none", StagingLimit: 32 << 20,
	}
	settings, err := c.resolve()
	require.NoError(t, err)
	for _, s := range settings {
		require.Equal(t, "config", s.Source, s.Field)
	}
}

func TestBadSettings(t *testing.T) {
	unsetAll(t)
	for env, values := range map[string][]string{
		"MPI4GO_THREAD_LEVEL": {"single", "all", "2"}, "MPI4GO_GOMAXPROCS": {"many", "1.5"}, "MPI4GO_SPINS": {"-1", "0x", "1048577"},
		"MPI4GO_LEAD_TIME": {"50", "-1s", "fast"}, "MPI4GO_IDLE_NAP": {"-1ms"}, "MPI4GO_CANCEL_TIMEOUT": {"1 s"},
		"MPI4GO_DRAIN_TIMEOUT": {"-30s"}, "MPI4GO_DEBUG": {"yes please"}, "MPI4GO_EXCLUSIVE": {"2"}, "MPI4GO_DOORBELL": {"1", "loud"},
		"MPI4GO_PLANS": {"fast", "inline:5"}, "MPI4GO_MAX_FRAMES": {"-1", "many"}, "MPI4GO_MAX_HEADER": {"100", "1G"}, "MPI4GO_MAX_MESSAGE": {"-5"},
		"MPI4GO_DEVICE_MEMORY": {"yes", "datatypes", "point-to-point,everything"}, "MPI4GO_STAGING_LIMIT": {"-1", "1000", "30000000", "1048576", "16M"},
	} {
		for _, value := range values {
			t.Setenv(env, value)
			_, err := new(Config).resolve()
			require.Error(t, err, "%s=%s", env, value)
			if !strings.Contains(err.Error(), env) { // found later, where only the field is known
				require.ErrorContains(t, err, "Config.", "%s=%s", env, value)
			}
		}
		t.Setenv(env, "")
	}
	for field, c := range map[string]Config{
		"Spins": {Spins: -1}, "ThreadLevel": {ThreadLevel: ThreadSingle}, "LeadTime": {LeadTime: -1}, "IdleNap": {IdleNap: -1},
		"CancelTimeout": {CancelTimeout: -1}, "DrainTimeout": {DrainTimeout: -1},
	} {
		_, err := c.resolve()
		require.ErrorContains(t, err, "Config."+field)
	}
	_, err := (&Config{ThreadLevel: 5}).resolve()
	require.ErrorContains(t, err, "Config.ThreadLevel: thread level 5: want funneled, serialized or multiple")
	t.Setenv("MPI4GO_SPINS", "many")
	_, err = new(Config).resolve()
	require.ErrorContains(t, err, `environment variable MPI4GO_SPINS="many"`)
}

// TestSettingsAreTheFields shows that no field of Config is without a variable.
func TestSettingsAreTheFields(t *testing.T) {
	var fields, listed []string
	for f := range reflect.TypeFor[Config]().Fields() {
		fields = append(fields, f.Name)
	}
	seen := map[string]bool{}
	for _, s := range new(Config).settings() {
		listed = append(listed, s.field)
		require.True(t, strings.HasPrefix(s.env, "MPI4GO_"))
		require.False(t, seen[s.env])
		seen[s.env] = true
	}
	require.Equal(t, fields, listed)
}

// TestConfigIsDocumented shows that docs/config.md has every field and variable.
func TestConfigIsDocumented(t *testing.T) {
	file := filepath.Join("..", "docs", "config.md")
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		t.Skip("there is no docs/config.md yet")
	}
	require.NoError(t, err)
	for _, s := range new(Config).settings() {
		require.Contains(t, string(text), s.field)
		require.Contains(t, string(text), s.env)
	}
}
