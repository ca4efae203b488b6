package ownership

// runner are the grants of the runner in a server's proxy pod.
func runner() []Grant {
	grant := func(manager Manager, object Object, why string, paths []Path) Grant {
		return Grant{Manager: manager, Identity: IdentityRunner, Object: object, Mode: Exclusive, Why: why, Fields: paths}
	}
	backend := grant(RunnerBackend, StatefulSet, "runs the user's image", fields(identity, mark, []string{
		"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.updateStrategy",
		"spec.revisionHistoryLimit", "spec.template",
	}))
	backend.Names = []string{"SERVER-backend"}
	backend.Create, backend.Versioned, backend.Baseline = true, true, true

	service := grant(RunnerBackend, Service, "is where the proxy calls, and names each backend pod", fields(identity, mark, []string{
		"spec.ports", "spec.selector", "spec.type", "spec.clusterIP", "spec.publishNotReadyAddresses",
	}))
	service.Names = []string{"SERVER-backend", "SERVER-backend-headless"}
	service.Create, service.Versioned = true, true

	report := grant(RunnerReport, MCPServerSub, "reports what runs", Paths(
		"status.runtime", "status.conditions[type=BackendApplied]", "status.conditions[type=BackendAnswers]"))
	report.Names = []string{"SERVER"}
	return []Grant{backend, service, report}
}

// Freehold is the contract of this operator.
func Freehold() Contract {
	var grants []Grant
	grants = append(grants, mcpServer()...)
	grants = append(grants, children()...)
	grants = append(grants, runner()...)
	return Contract{Grants: grants, Removals: removals(), Rights: rights(), Takeover: &Takeover{Annotation: AdoptAnnotation}}
}
