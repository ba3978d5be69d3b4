// Requests over gRPC that several tests send.
#pragma once

#include <inference.pb.h>

#include <string>

namespace serve::test {

/// A row of four numbers to a model, of the kind that `TestService` has.
inline inference::ModelInferRequest row_for(const std::string& model, const std::string& id = "7") {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_id(id);
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(1);
  input.add_shape(4);
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F})
    input.mutable_contents()->add_fp32_contents(value);
  return request;
}

} // namespace serve::test
