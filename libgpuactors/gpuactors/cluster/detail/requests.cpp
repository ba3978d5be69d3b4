#include <gpuactors/agent/core/environment.hpp>
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/cluster/detail/requests.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::detail {

Result<void> check_request(const google::protobuf::Message& message) {
  if (const auto size = message.ByteSizeLong(); size > limits::request_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("the request has {} bytes: at most {} are allowed", size, limits::request_bytes));
  return check_texts(message);
}

Error misfit(const std::string& what, const google::protobuf::Descriptor& takes,
             const google::protobuf::Descriptor& gives, bool streamed, const Asked& asked) {
  std::string text;
  if (!asked.input.is_a(takes))
    text = fmt::format("takes a {}, not a {}", takes.full_name(), asked.input.type_name());
  else if (streamed != asked.stream)
    text = streamed ? "answers with a stream of items: use stream(), not call()"
                    : "answers with one message: use call(), not stream()";
  else
    text = fmt::format("answers with a {}, not with a {}", gives.full_name(), asked.output->full_name());
  return {Errc::invalid_argument, fmt::format("{} {}", what, text)};
}

std::uint64_t to_limit_ms(Duration limit) noexcept {
  return std::max<std::uint64_t>(to_milliseconds(limit), 1);
}

Result<v1::ResourceRequest> to_request(const Options& options, const Needs& needs, const std::string& default_name) {
  const bool says = options.gpus != 0 || options.memory_bytes != 0;
  GPUACTORS_LET(gpus, parse_gpus(says ? options.gpus : needs.gpus));
  GPUACTORS_LET(cpus, Share::from_double(options.cpus != 0 ? options.cpus : needs.cpus, "cpus"));
  v1::ResourceRequest request;
  request.set_name(options.name.empty() ? default_name : options.name);
  request.set_gpu_units(gpus.units());
  request.set_memory_bytes(says ? options.memory_bytes : needs.memory_bytes);
  request.set_cpu_units(cpus.units());
  request.set_accelerator_type(options.accelerator_type);
  for (const auto& [name, amount] : options.resources) {
    GPUACTORS_TRY(check_not_host_memory(name, "host_memory_bytes"));
    GPUACTORS_LET(share, Share::from_double(amount, "resource " + name));
    (*request.mutable_resource_units())[name] = share.units();
  }
  GPUACTORS_TRY(check_host_memory("host_memory_bytes", options.host_memory_bytes));
  if (options.host_memory_bytes > 0)
    (*request.mutable_resource_units())[std::string{host_memory_resource}] =
        host_memory_amount(options.host_memory_bytes).units();
  request.set_node(options.node);
  request.set_node_soft(options.node_is_soft);
  set_labels(options.labels, request);
  request.set_priority(options.priority);
  request.set_spread(options.spread);
  request.set_wait_for_nodes(options.wait_for_nodes);
  request.set_group(options.group.value());
  request.set_bundle(options.bundle);
  GPUACTORS_TRY(check_environment(options.environment));
  request.mutable_environment()->insert(options.environment.begin(), options.environment.end());
  request.set_isolated(options.isolation == Isolation::process || !options.environment.empty());
  GPUACTORS_TRY(check_request(request));
  return request;
}

} // namespace gpuactors::detail
