#include <gpuactors/cluster/detail/system_parts.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gpuactors::detail {

void init_message_types() {
  static const bool done = [] {
    caf_version::init_types<caf::id_block::gpuactors>();
    return true;
  }();
  static_cast<void>(done);
}

Result<LinkOptions> link_options(const std::string& certificates, bool insecure, bool make) {
  LinkOptions options;
  if (insecure)
    return options;
  std::filesystem::path path{certificates};
  if (path.empty()) {
    GPUACTORS_LET(standard, CertificateFolder::default_path());
    path = standard;
  }
  const CertificateFolder folder{path};
  GPUACTORS_LET(files, make ? folder.ensure() : folder.check());
  options.certificates = files;
  return options;
}

namespace {

Failure no_threads(const std::system_error& error) {
  return fail(Errc::unavailable, fmt::format("the machine has no threads for a cluster: {} (ulimit -u)", error.what()));
}

/// Checks that the machine has threads for an actor system. Where it has not, CAF 0.17.6 ends with a crash, and not
/// with an exception that could be caught.
Result<void> check_threads() {
  // Of CAF's scheduler (at most 4), its clock, its multiplexer and our middleman; and of the request port.
  constexpr std::size_t wanted = 8;
  std::promise<void> over;
  const auto wait = over.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(wanted);
  Result<void> result;
  try {
    while (threads.size() < wanted)
      threads.emplace_back([wait] { wait.wait(); });
  } catch (const std::system_error& error) { // from std::thread
    result = no_threads(error);
  }
  over.set_value();
  for (auto& thread : threads)
    thread.join();
  return result;
}

} // namespace

Result<SystemParts> start_system(caf::actor_system_config& config, RequestPort::MessageHandler on_message) {
  GPUACTORS_TRY(check_threads());
  SystemParts parts;
  parts.system = std::make_unique<caf::actor_system>(config);
  try {
    parts.port = std::make_unique<RequestPort>(*parts.system, std::move(on_message));
  } catch (const std::system_error& error) { // from std::thread
    return no_threads(error);
  }
  return parts;
}

} // namespace gpuactors::detail
