#include <gpuactors/actor/registry.hpp>
#include <gpuactors/cluster/detail/plugin_file.hpp>
#include <gpuactors/cluster/detail/plugins.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuactors::detail {

namespace {

constexpr std::string_view begin_mark = "gpuactors: loading plugin ";
constexpr std::string_view end_mark = "gpuactors: no plugin is being loaded";

std::string dl_error() {
  const auto* text = ::dlerror();
  return text != nullptr ? text : "unknown error";
}

/// Loads a library, which runs its static constructors. An exception there ends the process, as before main.
Result<void> open_library(const std::string& file) {
  if (void* already = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
    ::dlclose(already);
    return fail(Errc::invalid_argument, "it is loaded already: it is named twice, or this program is linked with it");
  }
  // RTLD_NOW: a missing symbol fails here, not in the middle of a call. RTLD_LOCAL: symbols of plugins do not clash.
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
    return fail(Errc::invalid_argument, fmt::format("it cannot be loaded: {}", dl_error()));
  return {};
}

Result<void> load(const std::string& file) {
  const auto& registry = TypeRegistry::global();
  const auto count = [&] { return registry.tasks().size() + registry.actors().size(); };
  const auto before = count();
  GPUACTORS_TRY(check_plugin_file(file));
  GPUACTORS_TRY(open_library(file));
  if (const auto checked = registry.check(); !checked)
    return fail(checked.error().code(), fmt::format("with the types of this program and of the plugins before it, {}",
                                                    checked.error().message()));
  if (count() == before)
    return fail(Errc::invalid_argument, "it registers no task or actor: use GPUACTORS_TASK or GPUACTORS_ACTOR");
  return {};
}

/// The text between `prefix` and `suffix`, or to the end of the line; empty without `prefix`.
std::string_view between(std::string_view line, std::string_view prefix, std::string_view suffix) {
  const auto at = line.find(prefix);
  if (at == std::string_view::npos)
    return {};
  line.remove_prefix(at + prefix.size());
  return suffix.empty() ? line : line.substr(0, line.find(suffix));
}

} // namespace

Result<void> load_plugins(const std::vector<std::string>& files,
                          const std::function<void(const std::string& line)>& say) {
  GPUACTORS_TRY(TypeRegistry::global().check());
  for (const auto& file : files) {
    say(fmt::format("{}{}", begin_mark, file));
    const auto loaded = load(file);
    say(std::string{end_mark});
    if (!loaded)
      return fail(loaded.error().code(), fmt::format("plugin {}: {}", file, loaded.error().message()));
  }
  return {};
}

void Autopsy::add(std::string_view line) {
  if (line.starts_with(begin_mark)) {
    plugin_ = line.substr(begin_mark.size());
    clash_.clear();
    last_line_.clear();
    return;
  }
  if (line == end_mark) {
    plugin_.clear();
    return;
  }
  last_line_ = line;
  if (plugin_.empty())
    return;
  // Messages that libprotobuf writes before it ends the process.
  if (const auto file = between(line, "File already exists in database: ", ""); !file.empty())
    clash_ = fmt::format("plugin {}: its {} clashes with the one of this program or of another plugin: each .proto "
                         "file needs a path of its own",
                         plugin_, file);
  else if (const auto symbol = between(line, "Symbol name \"", "\" conflicts with the existing symbol");
           !symbol.empty())
    clash_ = fmt::format("plugin {}: its message {} clashes with one of this program or of another plugin: each "
                         "package needs a name of its own",
                         plugin_, symbol);
}

std::string Autopsy::verdict(std::string_view end) const {
  if (!clash_.empty())
    return clash_;
  if (plugin_.empty())
    return {};
  return fmt::format("plugin {}: the process that loaded it {}{}", plugin_, end,
                     last_line_.empty() ? std::string{} : fmt::format("; its last line was \"{}\"", last_line_));
}

} // namespace gpuactors::detail
