// Renders a Helm chart as `helm template` does, for a test: text/template with the functions of sprig, and those that
// Helm adds. Prints the documents, or the notes with -notes.
//
//	render -release roost -namespace roost -values overlay.yaml deploy/helm/roost
//
// It knows no subcharts, no lookups and no hooks. Values are merged as Helm merges them: maps by key, all else replaced.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type files map[string][]byte

func (f files) Get(name string) string { return string(f[name]) }

func (f files) Glob(pattern string) files {
	found := files{}
	for name, content := range f {
		if ok, _ := path.Match(pattern, name); ok {
			found[name] = content
		}
	}
	return found
}

func (f files) AsConfig() string {
	data := map[string]string{}
	for name, content := range f {
		data[path.Base(name)] = string(content)
	}
	return toYAML(data)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func toYAML(value interface{}) string {
	text, err := yaml.Marshal(value)
	fail(err)
	return strings.TrimSuffix(string(text), "\n")
}

func readYAML(name string) map[string]interface{} {
	text, err := os.ReadFile(name)
	fail(err)
	value := map[string]interface{}{}
	fail(yaml.UnmarshalStrict(text, &value))
	return value
}

func merge(base, over map[string]interface{}) map[string]interface{} {
	for key, value := range over {
		inner, isMap := value.(map[string]interface{})
		below, wasMap := base[key].(map[string]interface{})
		if value == nil {
			delete(base, key) // as Helm: null takes a value of the chart's away
		} else if isMap && wasMap {
			base[key] = merge(below, inner)
		} else {
			base[key] = value
		}
	}
	return base
}

// The files beside the templates, also those behind links.
func readFiles(chart string) files {
	found := files{}
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		names, err := filepath.Glob(filepath.Join(chart, pattern))
		fail(err)
		for _, name := range names {
			if info, err := os.Stat(name); err != nil || info.IsDir() || strings.Contains(name, "/templates/") {
				continue
			}
			content, err := os.ReadFile(name)
			fail(err)
			relative, err := filepath.Rel(chart, name)
			fail(err)
			found[relative] = content
		}
	}
	return found
}

func functions(all *template.Template) template.FuncMap {
	result := sprig.TxtFuncMap()
	delete(result, "env")
	delete(result, "expandenv")
	result["toYaml"] = toYAML
	result["toJson"] = func(value interface{}) string {
		text, err := json.Marshal(value)
		fail(err)
		return string(text)
	}
	result["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	result["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	return result
}

func main() {
	release := flag.String("release", "roost", "its name")
	namespace := flag.String("namespace", "roost", "where it is installed")
	values := flag.String("values", "", "file with values over the chart's")
	notes := flag.Bool("notes", false, "print the notes alone")
	flag.Parse()
	chart := flag.Arg(0)

	merged := readYAML(filepath.Join(chart, "values.yaml"))
	if *values != "" {
		merged = merge(merged, readYAML(*values))
	}
	about := readYAML(filepath.Join(chart, "Chart.yaml"))
	data := map[string]interface{}{
		"Values":  merged,
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": map[string]interface{}{"Name": *release, "Namespace": *namespace, "Service": "Helm"},
		"Files":   readFiles(chart),
	}
	all := template.New("chart").Option("missingkey=error")
	all.Funcs(functions(all))
	names, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	fail(err)
	sort.Strings(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		fail(err)
		_, err = all.New(filepath.Base(name)).Parse(string(text))
		fail(err)
	}
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasPrefix(base, "_") || (base == "NOTES.txt") != *notes {
			continue
		}
		var out strings.Builder
		fail(all.ExecuteTemplate(&out, base, data))
		if strings.TrimSpace(out.String()) != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", base, out.String())
		}
	}
}
