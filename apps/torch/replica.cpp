// The actor type torch/module: a TorchScript file as a model of gpuactors-serve, on a share of a device.
//
//   gpuactors-serve --model m=model.pt,actor=torch/module,set=inputs=x:FP32:3x224x224 --plugin gpuactors_torch.so
//
// Settings: `inputs` (see replica_tensors.hpp), and `outputs`, which may be left out.
#include "script_module.hpp"

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <apps/serve/protocol/data_type.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace torchscript {

namespace {

using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::value_or_throw;
namespace v1 = gpuactors::v1;

class Module : public gpuactors::Actor {
public:
  Module(gpuactors::Init init, const v1::ReplicaConfig& config)
    : Actor(std::move(init)), module_(value_or_throw(load(config))) {
    value_or_throw(metrics().gauge("torch_threads", "threads of libtorch's loops")).set(module_.threads());
  }

  v1::ReplicaDescription describe(const Empty& /*ask*/) {
    v1::ReplicaDescription description;
    const auto fill = [](v1::ReplicaTensor& tensor, const NamedRows& rows) {
      tensor.set_name(rows.name);
      tensor.set_datatype(std::string{serve::to_string(*rows.type)});
      tensor.mutable_row_shape()->Add(rows.row_shape.begin(), rows.row_shape.end());
    };
    for (const auto& input : module_.inputs())
      fill(*description.add_inputs(), input);
    for (const auto& output : module_.outputs())
      fill(*description.add_outputs(), output);
    description.set_takes_tensors(true);
    description.set_memory_used_bytes(gpu().memory_used());
    return description;
  }

  Result<v1::ReplicaReply> infer(const v1::ReplicaBatch& batch) {
    return module_.infer(batch, tensors());
  }

private:
  static Result<ModuleOptions> read_settings(const v1::ReplicaConfig& config) {
    ModuleOptions options;
    options.title = fmt::format("model {}, version {}", config.model(), config.version());
    options.max_rows = std::max<std::int64_t>(1, config.max_rows());
    for (const auto& [key, value] : config.settings()) {
      if (key == "inputs") {
        GPUACTORS_LET(inputs, parse_inputs(value));
        options.inputs = std::move(inputs);
      } else if (key == "outputs") {
        GPUACTORS_LET(outputs, parse_rows("outputs", value));
        options.outputs = std::move(outputs);
      } else {
        return gpuactors::fail(Errc::invalid_argument,
                               fmt::format("torch/module has no setting \"{}\": inputs and outputs are known", key));
      }
    }
    if (options.inputs.empty())
      return gpuactors::fail(
          Errc::invalid_argument,
          "torch/module needs the setting inputs, such as set=inputs=x:FP32:3x224x224: a TorchScript "
          "file does not say what shape its inputs have");
    return options;
  }

  Result<ScriptModule> load(const v1::ReplicaConfig& config) {
    GPUACTORS_LET(options, read_settings(config));
    if (gpu_count() != 1)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("torch/module runs on one device, not on {}", gpu_count()));
    if (gpu().device().kind != gpuactors::DeviceKind::host)
      return gpuactors::fail(
          Errc::unsupported,
          fmt::format("torch/module runs on host devices, and its lease is on {}: give it nodes or a "
                      "server with --devices host:1",
                      gpu().device().name));
    if (!config.has_file())
      return gpuactors::fail(Errc::invalid_argument, "torch/module needs a file, as in --model NAME=model.pt");
    GPUACTORS_LET(file, tensors().get(config.file()));
    GPUACTORS_LET(bytes, file.host<std::uint8_t>());
    options.threads = std::max(1, gpu().granted().units);
    return ScriptModule::load(bytes, std::move(options), gpu().quota());
  }

  ScriptModule module_;
};

GPUACTORS_ACTOR("torch/module", Module, v1::ReplicaConfig)
    .method("describe", &Module::describe)
    .method("infer", &Module::infer);

} // namespace

} // namespace torchscript
