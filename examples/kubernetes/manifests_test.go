// Package kubernetes checks the manifests in deploy/kubernetes. The module of the examples has the types of Kubernetes, so
// that programs do not get them.
package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy/kubernetes"

// manifests are all objects of this directory, by kind. A kind is there once, except the workloads.
type manifests struct {
	service  *corev1.Service
	servers  *appsv1.StatefulSet
	budget   *policyv1.PodDisruptionBudget
	network  *networkingv1.NetworkPolicy
	config   *corev1.ConfigMap
	secret   *corev1.Secret
	client   *appsv1.Deployment
	nameless *corev1.Namespace
}

// newDecoder returns a decoder into the types of Kubernetes. A field that a type does not have, or that is there twice,
// is an error.
func newDecoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	decoder := newDecoder(t)
	files, err := filepath.Glob(filepath.Join(deploy, "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for one := range strings.SplitSeq(string(text), "\n---\n") {
			object, _, err := decoder.Decode([]byte(one+"\n"), nil, nil)
			require.NoError(t, err, file)
			m.add(t, object)
		}
	}
	return m
}

func (m *manifests) add(t *testing.T, object runtime.Object) {
	t.Helper()
	switch o := object.(type) {
	case *corev1.Service:
		m.service = o
	case *appsv1.StatefulSet:
		m.servers = o
	case *policyv1.PodDisruptionBudget:
		m.budget = o
	case *networkingv1.NetworkPolicy:
		m.network = o
	case *corev1.ConfigMap:
		m.config = o
	case *corev1.Secret:
		m.secret = o
	case *appsv1.Deployment:
		m.client = o
	case *corev1.Namespace:
		m.nameless = o
	default:
		require.Fail(t, "an object that no test looks at", "%T", o)
	}
}

func (m *manifests) redis() *corev1.Container { return &m.servers.Spec.Template.Spec.Containers[0] }

func TestDecoderIsStrict(t *testing.T) {
	for _, wrong := range []string{"publishNotReadyAddress: true", "clusterIP: None\n  clusterIP: None", "ports: 6379"} {
		_, _, err := newDecoder(t).Decode([]byte("apiVersion: v1\nkind: Service\nspec:\n  "+wrong+"\n"), nil, nil)
		require.Error(t, err, wrong)
	}
}

func TestEveryObjectIsInTheNamespace(t *testing.T) {
	m := readManifests(t)
	for _, o := range []metav1.Object{m.service, m.servers, m.budget, m.network, m.config, m.secret, m.client} {
		require.Equal(t, m.nameless.Name, o.GetNamespace(), o.GetName())
	}
}

// TestServersShareNothing: each server has a machine and an address of its own.
func TestServersShareNothing(t *testing.T) {
	m := readManifests(t)
	spec := m.servers.Spec
	require.Equal(t, m.service.Name, spec.ServiceName)
	require.Equal(t, corev1.ClusterIPNone, m.service.Spec.ClusterIP)
	require.True(t, m.service.Spec.PublishNotReadyAddresses, "holders renew on a server that recovers")
	require.Equal(t, spec.Template.Labels, m.service.Spec.Selector)

	var addresses []string
	for i := range int(*spec.Replicas) {
		addresses = append(addresses, fmt.Sprintf("redis://locker:%s@%s-%d.%s.%s.svc:%d", m.secret.StringData["password"],
			m.servers.Name, i, m.service.Name, m.servers.Namespace, m.redis().Ports[0].ContainerPort))
	}
	require.Len(t, addresses, 5)
	require.Equal(t, strings.Join(addresses, ","), m.secret.StringData["nodes"])

	apart := spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	require.Len(t, apart, 1)
	require.Equal(t, corev1.LabelHostname, apart[0].TopologyKey)
	for what, selector := range map[string]*metav1.LabelSelector{
		"the set": spec.Selector, "the anti-affinity": apart[0].LabelSelector, "the budget": m.budget.Spec.Selector,
		"the spread": spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector, "the policy": &m.network.Spec.PodSelector,
	} {
		require.True(t, selects(t, selector, spec.Template.Labels), what)
		require.False(t, selects(t, selector, m.client.Spec.Template.Labels), what)
	}
	require.Equal(t, 1, m.budget.Spec.MaxUnavailable.IntValue())
}

func selects(t *testing.T, s *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	require.NoError(t, err)
	return selector.Matches(labels.Set(set))
}

// TestClientsReachTheServers: the policy lets in the servers and the programs with the label, and no others.
func TestClientsReachTheServers(t *testing.T) {
	m := readManifests(t)
	rule := m.network.Spec.Ingress[0]
	require.Equal(t, m.redis().Ports[0].Name, rule.Ports[0].Port.StrVal)
	for what, pod := range map[string]map[string]string{"a server": m.servers.Spec.Template.Labels, "a client": m.client.Spec.Template.Labels} {
		in := false
		for _, peer := range rule.From {
			in = in || selects(t, peer.PodSelector, pod)
		}
		require.True(t, in, what)
	}
	for _, peer := range rule.From {
		require.False(t, selects(t, peer.PodSelector, map[string]string{"app": "other"}))
	}
}

// TestReferencesExist: each key of the configuration that a pod uses exists, and the files are mounted where the command
// looks.
func TestReferencesExist(t *testing.T) {
	m := readManifests(t)
	for what, pod := range map[string]corev1.PodSpec{"server": m.servers.Spec.Template.Spec, "client": m.client.Spec.Template.Spec} {
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			for _, env := range c.Env {
				if from := env.ValueFrom; from != nil {
					require.Equal(t, m.secret.Name, from.SecretKeyRef.Name, what)
					require.Contains(t, m.secret.StringData, from.SecretKeyRef.Key, what)
				}
			}
		}
	}
	pod := m.servers.Spec.Template.Spec
	volumes := make(map[string]corev1.Volume)
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	for _, mount := range m.redis().VolumeMounts {
		require.Contains(t, volumes, mount.Name)
	}
	sources := volumes["config"].Projected.Sources
	require.Equal(t, m.config.Name, sources[0].ConfigMap.Name)
	require.Equal(t, m.secret.Name, sources[1].Secret.Name)
	require.Contains(t, m.secret.StringData, sources[1].Secret.Items[0].Key)
	require.Contains(t, m.redis().Command, "/etc/redis-locks/"+sources[1].Secret.Items[0].Path)
	require.Greater(t, time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, 30*time.Second, "the hook may take that long")
}

// TestConfigurationIsTheSame: the servers have the configuration of deploy/, which other tests start servers from.
func TestConfigurationIsTheSame(t *testing.T) {
	m := readManifests(t)
	for file, got := range map[string]string{"redis.conf": m.config.Data["redis.conf"], "users.acl": m.secret.StringData["users.acl"]} {
		want, err := os.ReadFile(filepath.Join(deploy, "..", file))
		require.NoError(t, err)
		require.Equal(t, string(want), got, file)
	}
	require.Contains(t, m.secret.StringData["users.acl"], " >"+m.secret.StringData["password"]+" ")
}

// TestKustomization: it has all files but the example of a client.
func TestKustomization(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "kustomization.yaml"))
	require.NoError(t, err)
	var k struct {
		metav1.TypeMeta `json:",inline"`
		Resources       []string `json:"resources"`
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &k))
	files, err := filepath.Glob(filepath.Join(deploy, "*.yaml"))
	require.NoError(t, err)
	var want []string
	for _, name := range append(k.Resources, "kustomization.yaml", "client.yaml") {
		want = append(want, filepath.Join(deploy, name))
	}
	require.ElementsMatch(t, want, files)
}
