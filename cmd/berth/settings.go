package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"berth/internal/modelfile"
)

// settings fills a role's flags: a flag on the command line wins over its BERTH_… variable, which wins over the --config file, which wins over
// the default. The file's fields are the flags' names with _ for -; a role may have further fields that are no flags.
type settings struct {
	flags *pflag.FlagSet
	file  string          // of --config
	other map[string]bool // fields of the file that another reader takes
	alias map[string]string
}

func variable(flag string) string {
	return "BERTH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// resolve applies variables and the file to every flag that the command line left alone.
func (s settings) resolve() error {
	if s.file == "" {
		s.file = os.Getenv(variable("config"))
	}
	if s.file != "" {
		if err := s.readFile(); err != nil {
			return usageError{err}
		}
	}
	var errs []error
	s.flags.VisitAll(func(f *pflag.Flag) {
		text, ok := os.LookupEnv(variable(f.Name))
		if !ok || f.Changed || f.Name == "config" {
			return
		}
		if err := s.set(f, strings.Split(text, ",")); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", variable(f.Name), err))
		}
	})
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// readFile sets the flags that the command line and the environment leave alone.
func (s settings) readFile() error {
	doc, err := oneDocument(s.file)
	if err != nil {
		return err
	}
	if v := doc.Field("version"); v != "1" {
		return fmt.Errorf("%s: version is %q; this release reads version: 1", s.file, v)
	}
	known := map[string]bool{"version": true}
	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" {
			known[s.fieldOf(f.Name)] = true
		}
	})
	fields, err := doc.Fields(known, s.other)
	if err != nil {
		return err
	}
	for _, field := range fields {
		f := s.flags.Lookup(s.flagOf(field.Name))
		if f == nil || f.Changed {
			continue
		}
		if _, ok := os.LookupEnv(variable(f.Name)); ok {
			continue
		}
		if err := s.set(f, field.Values); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", s.file, field.Line, field.Name, err)
		}
	}
	return nil
}

func (s settings) fieldOf(flag string) string {
	for field, f := range s.alias {
		if f == flag {
			return field
		}
	}
	return strings.ReplaceAll(flag, "-", "_")
}

func (s settings) flagOf(field string) string {
	if f, ok := s.alias[field]; ok {
		return f
	}
	return strings.ReplaceAll(field, "_", "-")
}

// set gives a flag its values without marking it as changed on the command line.
func (s settings) set(f *pflag.Flag, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(slices.Clone(values))
	}
	if len(values) != 1 {
		return fmt.Errorf("it takes one value, not %d", len(values))
	}
	return f.Value.Set(values[0])
}

func oneDocument(path string) (modelfile.Document, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return modelfile.Document{}, fmt.Errorf("there is no configuration file %s", path)
	}
	if err != nil {
		return modelfile.Document{}, err
	}
	defer f.Close()
	docs, err := modelfile.Documents(path, f)
	if err != nil {
		return modelfile.Document{}, err
	}
	if len(docs) != 1 {
		return modelfile.Document{}, fmt.Errorf("%s holds %d documents; a configuration is one", path, len(docs))
	}
	return docs[0], nil
}

// firstDocument returns the first document of a file that may hold several.
func firstDocument(path string) (modelfile.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return modelfile.Document{}, err
	}
	defer f.Close()
	docs, err := modelfile.Documents(path, f)
	if err != nil {
		return modelfile.Document{}, err
	}
	if len(docs) == 0 {
		return modelfile.Document{}, fmt.Errorf("%s is empty", path)
	}
	return docs[0], nil
}
