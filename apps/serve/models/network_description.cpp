#include "network_description.hpp"

namespace serve {

wire::ReplicaDescription describe_network(const nn::NetworkSpec& spec) {
  const auto* datatype = spec.dtype == gpuactors::DType::f64 ? "FP64" : "FP32";
  wire::ReplicaDescription description;
  auto* x = description.add_inputs();
  x->set_name(network_input);
  x->set_datatype(datatype);
  x->add_row_shape(spec.inputs());
  auto* y = description.add_outputs();
  y->set_name(network_output);
  y->set_datatype(datatype);
  y->add_row_shape(spec.outputs());
  description.set_takes_tensors(true);
  return description;
}

} // namespace serve
