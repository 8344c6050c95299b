package licence

// The one text that goes with the programs: a table of modules, then every licence once.

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// rule separates the parts of the document.
const rule = "================================================================================\n"

// Document makes the text. Equal licence texts are printed once, with all who have them.
func Document(modules []Module) []byte {
	var b bytes.Buffer
	b.WriteString("The programs instrument and bootstrap of Tokenscope are linked with these modules.\n" +
		"Their licences follow.\n\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "  %s  (%s)\n", title(m), m.SPDX)
	}
	owners := map[string][]string{}
	var order []string
	for _, m := range modules {
		for _, text := range m.Texts {
			data := strings.ReplaceAll(text.Data, "\r\n", "\n")
			if owners[data] == nil {
				order = append(order, data)
			}
			owners[data] = append(owners[data], title(m)+": "+text.Name)
		}
	}
	for _, data := range order {
		list := owners[data]
		slices.Sort(list)
		fmt.Fprintf(&b, "\n%s%s\n%s\n%s\n", rule, strings.Join(list, "\n"), rule, strings.TrimRight(data, "\n"))
	}
	return b.Bytes()
}

func title(m Module) string {
	if m.Path == StandardLibrary {
		return "Go standard library " + m.Version
	}
	return m.Path + " " + m.Version
}
