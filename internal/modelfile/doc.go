// Package modelfile reads Berth's YAML files strictly: an unknown field, a field that is there twice or a value of the wrong type is an error
// with file, line and what would be right, and every problem of a file is reported at once. It decodes into ordinary structs by their json tags,
// so that YAML and JSON can never use different names. It knows how to read; what a value may be, the type it fills says in its own Check.
package modelfile
