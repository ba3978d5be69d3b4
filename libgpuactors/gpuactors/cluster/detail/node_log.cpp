#include <gpuactors/cluster/detail/node_log.hpp>
#include <gpuactors/wire/certificates.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::detail {

namespace {

// How many nodes of one name may run on one machine at once, in different clusters.
constexpr int same_names = 64;

bool fits_file_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

} // namespace

Result<std::filesystem::path> default_log_folder(const std::string& node) {
  // The log folders are next to the certificates.
  GPUACTORS_LET(certificates, CertificateFolder::default_path());
  auto name = node;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !fits_file_name(c); }, '_');
  if (name.empty() || name.front() == '.')
    name.insert(0, "_");
  return certificates.parent_path() / "logs" / name;
}

NodeLog::NodeLog(std::string node) : node_(std::move(node)) {
  // nop
}

Result<std::shared_ptr<NodeLog>> NodeLog::open(std::string node, const std::string& folder, const Notice& notice) {
  auto log = std::shared_ptr<NodeLog>{new NodeLog{std::move(node)}};
  if (!folder.empty()) {
    GPUACTORS_TRY(log->open(folder, notice));
    return log;
  }
  auto opened = [&]() -> Result<void> {
    GPUACTORS_LET(own, default_log_folder(log->node_));
    auto done = log->open(own, notice);
    for (int i = 2; !done && done.error().code() == Errc::already_exists && i <= same_names; ++i)
      done = log->open(own.string() + fmt::format("+{}", i), notice);
    return done;
  }();
  if (!opened)
    notice(fmt::format("what workers write is not kept: {}", opened.error().message()));
  return log;
}

Result<void> NodeLog::open(const std::filesystem::path& folder, const Notice& notice) {
  LogOptions options;
  options.folder = folder;
  options.on_warning = [notice](const std::string& warning) { notice(warning); };
  GPUACTORS_LET(store, LogStore::open(std::move(options)));
  GPUACTORS_LET(readers, LogReaders::make(*store, sources_));
  parts_ = std::make_shared<Parts>(Parts{std::move(store), std::move(readers)});
  return {};
}

void NodeLog::append(const WorkerLine& line) {
  // Rounded to the file's microseconds, so that a line has the same time however it is read.
  if (parts_ != nullptr)
    parts_->store->append({std::chrono::floor<std::chrono::microseconds>(line.time), node_,
                           sources_->source_of(line.worker, line.holder), line.stream, std::string{line.text}});
}

std::function<void(const LogQuery&, LogReaders::Done)> NodeLog::reader() const {
  if (parts_ == nullptr)
    return nullptr;
  return
      [parts = parts_](const LogQuery& query, LogReaders::Done done) { parts->readers->read(query, std::move(done)); };
}

} // namespace gpuactors::detail
