package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlans(t *testing.T) {
	p, err := ParsePlans("inline:512,datatype:1M,request")
	require.NoError(t, err)
	require.Equal(t, "inline:512,datatype:1M,request", p.String())
	for n, want := range map[int]Plan{0: Inline, 512: Inline, 513: Datatype, 1 << 20: Datatype, 1<<20 + 1: Request} {
		require.Equal(t, want, p.For(n), n)
	}
	for _, plan := range []Plan{Inline, Datatype, Request} { // forced
		p, err := ParsePlans(plan.String())
		require.NoError(t, err)
		require.Equal(t, plan, p.For(0))
		require.Equal(t, plan, p.For(1<<40))
	}
	p, err = ParsePlans("")
	require.NoError(t, err)
	require.Nil(t, p)
	for text, complaint := range map[string]string{
		"fast":                          "want inline, datatype or request",
		"inline:512":                    "every plan but the last has a limit",
		"inline,request":                "every plan but the last has a limit",
		"inline:5,datatype:5,request":   "do not rise",
		"inline:x,request":              "want a number of bytes",
		"inline:-1,request":             "want a number of bytes",
		"inline:9999999999999G,request": "want a number of bytes",
	} {
		_, err := ParsePlans(text)
		require.ErrorContains(t, err, complaint, text)
	}
}

// TestDefaultPlans shows that the plans of each family are in the shortest form, and
// begin with inline, without which no message travels in its header alone.
func TestDefaultPlans(t *testing.T) {
	for family, text := range defaultPlans {
		p, err := ParsePlans(DefaultPlans(family))
		require.NoError(t, err, family)
		require.Equal(t, text, p.String(), family)
		require.Equal(t, Inline, p.For(0), family)
	}
}
