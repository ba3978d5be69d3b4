// The JSON documents of HTTP that tell of the server and its models.
#pragma once

#include <apps/serve/service.hpp>

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace serve {

/// The extensions of the protocol that are there, as the metadata of the server lists them.
inline constexpr std::array<std::string_view, 7> extensions{
    "binary_tensor_data", "generate", "model_configuration", "model_repository",
    "schedule_policy",    "sequence", "statistics"};

[[nodiscard]] std::string server_document(std::string_view name, std::string_view version);
[[nodiscard]] std::string metadata_document(const ModelDescription& model);
/// The model's configuration under Triton's names, which clients look for the largest batch in.
[[nodiscard]] std::string config_document(const ModelDescription& model);
[[nodiscard]] std::string statistics_document(std::span<const ModelStatistics> models);
/// @param ready_only Leave out what is not READY.
[[nodiscard]] std::string index_document(std::span<const RepositoryEntry> entries, bool ready_only);

/// The type as configurations spell it, for example "TYPE_FP32"; BYTES is TYPE_STRING.
[[nodiscard]] std::string config_type(DataType type);
/// The dimensions without the batch, as configurations list them.
[[nodiscard]] std::span<const std::int64_t> config_dims(const ModelDescription& model, const TensorSpec& tensor);

} // namespace serve
