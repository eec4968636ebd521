package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EchoSpec is what a person asks for.
type EchoSpec struct {
	Message string `json:"message"`
}

// EchoStatus is what the operator observed.
type EchoStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Echo puts its message into a ConfigMap of its own name.
type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EchoSpec   `json:"spec"`
	Status EchoStatus `json:"status,omitempty"`
}

// EchoList is a list of Echo.
type EchoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Echo `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "bench.konverge.dev", Version: "v1"}
	scheme.AddKnownTypes(version, &Echo{}, &EchoList{})
	metav1.AddToGroupVersion(scheme, version)
}

// DeepCopyInto copies all of e, as controller-gen would generate it.
func (e *Echo) DeepCopyInto(out *Echo) {
	*out = *e
	e.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if e.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(e.Status.Conditions))
		for i := range e.Status.Conditions {
			e.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
}

// DeepCopy returns a copy of e.
func (e *Echo) DeepCopy() *Echo {
	out := new(Echo)
	e.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy of e.
func (e *Echo) DeepCopyObject() runtime.Object { return e.DeepCopy() }

// DeepCopyObject returns a copy of l.
func (l *EchoList) DeepCopyObject() runtime.Object {
	out := &EchoList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Echo, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
