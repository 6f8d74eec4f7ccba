// Command kube measures kube-scheduler in process: its scheduling queue, framework and default plugins as they are, on client-go's fake clientset, with no
// API server and no etcd, which is the kindest setting for it. Bindings are swallowed. It places single pods with one GPU each; it has no gang.
//
// It is a module of its own so that Berth's does not depend on Kubernetes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
)

const gpu = v1.ResourceName("nvidia.com/gpu")

func main() {
	nodes := flag.Int("nodes", 5000, "nodes of 8 GPUs")
	pods := flag.Int("pods", 5000, "pods of one GPU")
	pack := flag.Bool("pack", false, "score nodes by MostAllocated GPUs instead of the default")
	flag.Parse()
	klog.SetLogger(klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(nowhere{})
	r, err := measure(*nodes, *pods, *pack)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(r)
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// result is in the form that the bench beside this module reads.
type result struct {
	Nodes      int     `json:"nodes"`
	Placements int     `json:"placements"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"per_second"`
	NodesUsed  int     `json:"nodes_used"`
}

// bound counts the bindings that the scheduler makes.
type bound struct {
	mu    sync.Mutex
	left  int
	nodes map[string]bool
	done  chan struct{}
}

func (b *bound) bind(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[node] = true
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

func measure(nodes, pods int, pack bool) (result, error) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	client := fake.NewClientset()
	b := &bound{left: pods, nodes: map[string]bool{}, done: make(chan struct{})}
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clienttesting.CreateAction)
		if !ok || a.GetSubresource() != "binding" {
			return false, nil, nil
		}
		b.bind(create.GetObject().(*v1.Binding).Target.Name)
		return true, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	profiles, err := profilesFor(pack)
	if err != nil {
		return result{}, err
	}
	s, err := scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorder { return &quiet{} }, scheduler.WithProfiles(profiles...))
	if err != nil {
		return result{}, err
	}
	for i := range nodes {
		if _, err := client.CoreV1().Nodes().Create(ctx, node(i), metav1.CreateOptions{}); err != nil {
			return result{}, err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return result{}, err
	}
	for i := range pods {
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod(i), metav1.CreateOptions{}); err != nil {
			return result{}, err
		}
	}
	for len(s.SchedulingQueue.PodsInActiveQ()) < pods && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // all pods wait before the clock starts
	}
	start := time.Now()
	go s.Run(ctx)
	select {
	case <-b.done:
	case <-ctx.Done():
		return result{}, ctx.Err()
	}
	took := time.Since(start).Seconds()
	return result{nodes, pods, took, float64(pods) / took, len(b.nodes)}, nil
}

// profilesFor returns the default profile, or one that packs: nothing but the most allocated node by GPU counts.
func profilesFor(pack bool) ([]config.KubeSchedulerProfile, error) {
	c, err := latest.Default()
	if err != nil || !pack {
		return c.Profiles, err
	}
	for _, plugin := range c.Profiles[0].PluginConfig {
		if args, ok := plugin.Args.(*config.NodeResourcesFitArgs); ok {
			args.ScoringStrategy = &config.ScoringStrategy{Type: config.MostAllocated, Resources: []config.ResourceSpec{{Name: string(gpu), Weight: 1}}}
		}
	}
	c.Profiles[0].Plugins.MultiPoint.Enabled = slices.DeleteFunc(c.Profiles[0].Plugins.MultiPoint.Enabled, func(p config.Plugin) bool {
		return p.Name == "NodeResourcesBalancedAllocation" || p.Name == "PodTopologySpread"
	})
	return c.Profiles, nil
}

// quiet records no events.
type quiet struct{}

func (*quiet) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
func (q *quiet) WithLogger(klog.Logger) events.EventRecorderLogger                           { return q }

func node(i int) *v1.Node {
	room := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("1Ti"), v1.ResourcePods: resource.MustParse("110"), gpu: resource.MustParse("8"),
	}
	name := fmt.Sprintf("n%05d", i)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "fabric": fmt.Sprintf("f%04d", i/16)}},
		Status:     v1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
}

func pod(i int) *v1.Pod {
	one := v1.ResourceList{gpu: resource.MustParse("1"), v1.ResourceCPU: resource.MustParse("1")}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%05d", i), Namespace: "default", UID: types.UID(fmt.Sprint("u", i))},
		Spec: v1.PodSpec{
			SchedulerName: "default-scheduler",
			Containers:    []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: one, Limits: one}}},
		},
	}
}
