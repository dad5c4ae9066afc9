package carrier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// State is the simulator's state, as GET /admin returns it.
type State struct {
	Speed   float64                `json:"speed"`
	Regions map[string]RegionState `json:"regions"`
	Orders  Counts                 `json:"orders"`
}

// RegionState holds a region's fault and the counts of its calls.
type RegionState struct {
	Fault Fault `json:"fault"`
	Counts
}

// State returns the current faults and counts. The caller owns the maps.
func (s *Server) State() State {
	state := State{Speed: s.speed, Regions: make(map[string]RegionState), Orders: s.calls.snapshot("")}
	for name, r := range s.regions {
		state.Regions[name] = RegionState{Fault: r.current(), Counts: s.calls.snapshot(name)}
	}
	return state
}

func (s *Server) showState(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, s.State())
}

func (s *Server) reset(w http.ResponseWriter, _ *http.Request) {
	s.ResetCounts()
	respond(w, http.StatusOK, s.State())
}

// changeFault accepts the fault as JSON, as a form, or in the query.
func (s *Server) changeFault(w http.ResponseWriter, r *http.Request) {
	region := r.PathValue("region")
	if _, err := s.region(region); err != nil {
		respond(w, http.StatusNotFound, failure{err.Error()})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		respond(w, http.StatusBadRequest, failure{"the body could not be read"})
		return
	}
	fault, err := parseFault(r.URL.RawQuery, bytes.TrimSpace(body))
	if err == nil {
		err = s.SetFault(region, fault)
	}
	if err != nil {
		respond(w, http.StatusBadRequest, failure{err.Error()})
		return
	}
	respond(w, http.StatusOK, s.State().Regions[region])
}

// parseFault reads a fault from the query or from the body. curl sends JSON with the
// content type of a form, so the first byte of the body decides.
func parseFault(query string, body []byte) (Fault, error) {
	if query != "" && len(body) > 0 {
		return Fault{}, errors.New("the fault is in the query and in the body: send only one")
	}
	var (
		kind  FaultKind
		share *float64
		err   error
	)
	if bytes.HasPrefix(body, []byte("{")) {
		kind, share, err = parseJSON(body)
	} else {
		kind, share, err = parseForm(query + string(body))
	}
	switch {
	case err != nil:
		return Fault{}, err
	case kind == "":
		return Fault{}, fmt.Errorf("kind is missing: use %s", oneOf(faultKinds))
	case kind == Flaky && share == nil:
		return Fault{}, fmt.Errorf("fault kind %q needs a share from 0 to 1", Flaky)
	case share == nil:
		return Fault{Kind: kind}, nil
	default:
		return Fault{Kind: kind, Share: *share}, nil
	}
}

func parseJSON(body []byte) (FaultKind, *float64, error) {
	var f struct {
		Kind  FaultKind `json:"kind"`
		Share *float64  `json:"share"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return "", nil, errors.New(`the body must be like {"kind": "flaky", "share": 0.3}`)
	}
	return f.Kind, f.Share, nil
}

func parseForm(form string) (FaultKind, *float64, error) {
	values, err := url.ParseQuery(form)
	if err != nil {
		return "", nil, errors.New("the fault must be like kind=flaky&share=0.3")
	}
	for name := range values {
		if name != "kind" && name != "share" {
			return "", nil, fmt.Errorf("unknown field %q: use kind or share", name)
		}
	}
	kind := FaultKind(values.Get("kind"))
	if !values.Has("share") {
		return kind, nil, nil
	}
	share, err := strconv.ParseFloat(values.Get("share"), 64)
	if err != nil {
		return "", nil, fmt.Errorf("share must be a number from 0 to 1, got %q", values.Get("share"))
	}
	return kind, &share, nil
}
