#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/documents.hpp>
#include <apps/serve/protocol/json_text.hpp>

#include <chrono>

namespace serve {

namespace {

void write_shape(JsonText& json, std::span<const std::int64_t> shape) {
  json.array();
  for (const auto size : shape)
    json.value(size);
  json.close();
}

void write_specs(JsonText& json, std::string_view key, std::span<const TensorSpec> tensors) {
  json.key(key).array();
  for (const auto& tensor : tensors) {
    json.object().key("name").value(tensor.name).key("datatype").value(to_string(tensor.type)).key("shape");
    write_shape(json, tensor.shape);
    json.close();
  }
  json.close();
}

void write_config_tensors(JsonText& json, std::string_view key, const ModelDescription& model,
                          std::span<const TensorSpec> tensors) {
  json.key(key).array();
  for (const auto& tensor : tensors) {
    json.object().key("name").value(tensor.name).key("data_type").value(config_type(tensor.type)).key("dims");
    write_shape(json, config_dims(model, tensor));
    json.close();
  }
  json.close();
}

void write_timed(JsonText& json, std::string_view key, const Timed& timed) {
  json.key(key).object().key("count").value(timed.count).key("ns").value(timed.nanoseconds).close();
}

void write_statistics(JsonText& json, const ModelStatistics& model) {
  json.object().key("name").value(model.name).key("version").value(model.version);
  json.key("last_inference").value(model.last_inference_ms);
  json.key("inference_count").value(model.inference_count).key("execution_count").value(model.execution_count);
  json.key("inference_stats").object();
  write_timed(json, "success", model.success);
  write_timed(json, "fail", model.fail);
  write_timed(json, "queue", model.queue);
  write_timed(json, "compute_input", model.compute_input);
  write_timed(json, "compute_infer", model.compute_infer);
  write_timed(json, "compute_output", model.compute_output);
  // Answers are not cached.
  write_timed(json, "cache_hit", {});
  write_timed(json, "cache_miss", {});
  json.close().key("batch_stats").array();
  for (const auto& [size, infer] : model.batches) {
    json.object().key("batch_size").value(size);
    // What a batch takes is measured as a whole.
    write_timed(json, "compute_input", {infer.count, 0});
    write_timed(json, "compute_infer", infer);
    write_timed(json, "compute_output", {infer.count, 0});
    json.close();
  }
  json.close().close();
}

} // namespace

std::string server_document(std::string_view name, std::string_view version) {
  JsonText json;
  json.object().key("name").value(name).key("version").value(version).key("extensions").array();
  for (const auto extension : extensions)
    json.value(extension);
  json.close().close();
  return std::move(json).take();
}

std::string metadata_document(const ModelDescription& model) {
  JsonText json;
  json.object().key("name").value(model.name).key("versions").array();
  for (const auto& version : model.versions)
    json.value(version);
  json.close().key("platform").value(model.platform);
  write_specs(json, "inputs", model.inputs);
  write_specs(json, "outputs", model.outputs);
  json.close();
  return std::move(json).take();
}

std::string config_document(const ModelDescription& model) {
  JsonText json;
  json.object().key("name").value(model.name).key("platform").value(model.platform).key("backend").value("gpuactors");
  json.key("max_batch_size").value(model.max_batch);
  write_config_tensors(json, "input", model, model.inputs);
  write_config_tensors(json, "output", model, model.outputs);
  if (model.generative)
    json.key("model_transaction_policy").object().key("decoupled").value(true).close();
  json.key("instance_group").array().object();
  json.key("name").value(model.name).key("kind").value("KIND_AUTO").key("count").value(model.replicas).close().close();
  if (model.max_batch > 0) {
    json.key("dynamic_batching").object().key("default_queue_policy").object();
    json.key("max_queue_size").value(model.max_queue);
    if (model.default_timeout)
      json.key("default_timeout_microseconds")
          .value(std::chrono::duration_cast<std::chrono::microseconds>(*model.default_timeout).count());
    json.key("allow_timeout_override").value(true).close().close();
  }
  json.close();
  return std::move(json).take();
}

std::string statistics_document(std::span<const ModelStatistics> models) {
  JsonText json;
  json.object().key("model_stats").array();
  for (const auto& model : models)
    write_statistics(json, model);
  json.close().close();
  return std::move(json).take();
}

std::string index_document(std::span<const RepositoryEntry> entries, bool ready_only) {
  JsonText json;
  json.array();
  for (const auto& entry : entries) {
    if (ready_only && entry.state != "READY")
      continue;
    json.object().key("name").value(entry.name).key("version").value(entry.version);
    json.key("state").value(entry.state).key("reason").value(entry.reason).close();
  }
  json.close();
  return std::move(json).take();
}

std::string config_type(DataType type) {
  return type == DataType::bytes ? "TYPE_STRING" : "TYPE_" + std::string{to_string(type)};
}

std::span<const std::int64_t> config_dims(const ModelDescription& model, const TensorSpec& tensor) {
  const std::span shape{tensor.shape};
  return model.max_batch > 0 && !shape.empty() ? shape.subspan(1) : shape;
}

} // namespace serve
