// Both halves of the probes.
#include <conformance/probe_kernels.hpp>

namespace gpuactors::conformance {

GPUACTORS_DEFINE_KERNEL(await_gate, AwaitGate)
GPUACTORS_DEFINE_KERNEL(open_gate, OpenGate)
GPUACTORS_DEFINE_KERNEL(mix, Mix)
GPUACTORS_DEFINE_KERNEL(many_arguments, ManyArguments)
GPUACTORS_DEFINE_KERNEL(no_arguments, NoArguments)

} // namespace gpuactors::conformance
