package openai

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
)

// FormModel reads a multipart form up to the field that names the model and returns its value. What it read is up to the
// caller to keep, for example with an [io.TeeReader]. stream is true if the form asked for a stream before that field.
func FormModel(body io.Reader, boundary string) (model string, stream bool, err error) {
	form := multipart.NewReader(body, boundary)
	for {
		part, err := form.NextRawPart()
		if err == io.EOF { // a wrapped one is a form that is cut off
			return "", stream, errors.New(`the form has no field "model"; it names the model to use`)
		}
		if err != nil {
			return "", stream, fmt.Errorf("the multipart form cannot be read: %w", err)
		}
		switch name := part.FormName(); {
		case part.FileName() != "":
		case name == "model":
			model, err := field(part)
			if err == nil && model == "" {
				err = errors.New(`the form's field "model" is empty; it names the model to use`)
			}
			return model, stream, err
		case name == "stream":
			v, err := field(part)
			if err != nil {
				return "", false, err
			}
			stream = strings.EqualFold(v, "true") || v == "1"
		}
	}
}

func field(part *multipart.Part) (string, error) {
	v, err := io.ReadAll(io.LimitReader(part, maxValue+1))
	if err != nil {
		return "", fmt.Errorf("the form's field %q cannot be read: %w", part.FormName(), err)
	}
	if len(v) > maxValue {
		return "", fmt.Errorf("the form's field %q has more than %d bytes", part.FormName(), maxValue)
	}
	return string(v), nil
}
