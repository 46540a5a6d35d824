// Checks manifests as an API server would that creates them: strict decoding, defaults, validation. Pods also have to
// pass the Pod Security Standard "restricted". It needs no cluster.
//
//	go run . FILE...
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// What an API server does with an object of this kind before it stores it.
var strategies = map[string]rest.RESTCreateStrategy{
	"ConfigMap":               configmap.Strategy,
	"Deployment":              deployment.Strategy,
	"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy,
	"Ingress":                 ingress.Strategy,
	"NetworkPolicy":           networkpolicy.Strategy,
	"PodDisruptionBudget":     poddisruptionbudget.Strategy,
	"Service":                 service.Strategy,
	"ServiceAccount":          serviceaccount.Strategy,
}

var (
	strict   = json.NewSerializerWithOptions(json.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	security = must(policy.NewEvaluator(policy.DefaultChecks(), nil))
)

func main() {
	failed := false
	for _, file := range os.Args[1:] {
		count, problems := checkFile(file)
		for _, problem := range problems {
			failed = true
			fmt.Printf("%s: %v\n", file, problem)
		}
		if count == 0 {
			failed = true
			fmt.Printf("%s: no object in it\n", file)
		}
		if len(problems) == 0 {
			fmt.Printf("%s: %d objects, ok\n", file, count)
		}
	}
	if failed || len(os.Args) == 1 {
		os.Exit(1)
	}
}

func checkFile(file string) (count int, problems []error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, []error{err}
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return count, problems
		}
		if err != nil {
			return count, append(problems, err)
		}
		if isEmpty(document) {
			continue
		}
		count++
		if err := check(document); err != nil {
			problems = append(problems, err)
		}
	}
}

// Comments alone are no object.
func isEmpty(document []byte) bool {
	var content any
	return yaml.Unmarshal(document, &content) == nil && content == nil
}

func check(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	// The CRD of the Prometheus operator is not in the scheme of an API server.
	if kind.APIVersion == monitoring.SchemeGroupVersion.String() && kind.Kind == monitoring.PodMonitorsKind {
		return yaml.UnmarshalStrict(document, &monitoring.PodMonitor{})
	}
	object, version, err := strict.Decode(document, nil, nil)
	if err != nil {
		return err
	}
	strategy, found := strategies[kind.Kind]
	if !found {
		return fmt.Errorf("%s: this program does not know how to check one", kind.Kind)
	}
	legacyscheme.Scheme.Default(object)
	var problems []error
	if deployed, ok := object.(*appsv1.Deployment); ok {
		problems = append(problems, restricted(deployed)...)
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, schema.GroupVersion{Group: version.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return err
	}
	// The API server does it between decoding and validation.
	if service, ok := internal.(*core.Service); ok && service.Spec.ClusterIP != "" {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return err
	}
	rest.FillObjectMetaSystemFields(metadata)
	context := request.WithRequestInfo(request.WithNamespace(context.Background(), "default"), &request.RequestInfo{APIGroup: version.Group, APIVersion: version.Version})
	if err := rest.BeforeCreate(strategy, context, internal); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// What the Pod Security Standard "restricted" forbids in the pods.
func restricted(deployed *appsv1.Deployment) (problems []error) {
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	template := deployed.Spec.Template
	for _, result := range security.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			problems = append(problems, fmt.Errorf("Deployment %q: not restricted: %s (%s)", deployed.Name, result.ForbiddenReason, result.ForbiddenDetail))
		}
	}
	return problems
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
