// The messages of gRPC and what they say, both ways. They come without gRPC itself.
#pragma once

#include <apps/serve/service.hpp>

#include <inference.pb.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace serve {

/// Reads a request. Raw contents become views that keep the message. Any thread.
/// @returns `invalid_argument` with a sentence for whatever is wrong with it.
[[nodiscard]] gpuactors::Result<InferRequest>
request_of(const std::shared_ptr<const inference::ModelInferRequest>& message);

/// All of a reply but its bytes, which belong into `raw_output_contents`, one for each output.
[[nodiscard]] inference::ModelInferResponse head_of(const InferReply& reply);

[[nodiscard]] inference::ServerMetadataResponse server_metadata(std::string_view name, std::string_view version);
[[nodiscard]] inference::ModelMetadataResponse metadata_of(const ModelDescription& model);
[[nodiscard]] inference::ModelConfigResponse config_of(const ModelDescription& model);
[[nodiscard]] inference::ModelStatisticsResponse statistics_of(std::span<const ModelStatistics> models);
[[nodiscard]] inference::RepositoryIndexResponse index_of(std::span<const RepositoryEntry> entries, bool ready_only);

/// The parameters of a load, as text.
[[nodiscard]] std::map<std::string, std::string> parameters_of(const inference::RepositoryModelLoadRequest& message);

} // namespace serve
