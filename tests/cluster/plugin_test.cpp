// What is said of plugins without loading them: their files, the end of a process that did, catalogs of others.
#include <gpuactors/cluster/described_types.hpp>
#include <gpuactors/cluster/detail/plugin_file.hpp>
#include <gpuactors/cluster/detail/plugins.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <dlfcn.h>

#include <fstream>
#include <sstream>

using namespace gpuactors;
using namespace gpuactors::detail;
using gpuactors::test::TemporaryFolder;

namespace {

/// The file of the library itself: a shared library with notes.
std::string own_library() {
  Dl_info info{};
  REQUIRE(::dladdr(reinterpret_cast<const void*>(&check_plugin_file), &info) != 0);
  return info.dli_fname;
}

std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  return text.str();
}

std::string verdict_of(const std::vector<std::string>& lines, const std::string& end) {
  Autopsy autopsy;
  for (const auto& line : lines)
    autopsy.add(line);
  return autopsy.verdict(end);
}

} // namespace

TEST_CASE("a library says what it was built with before it is loaded", "[plugin]") {
  const auto notes = read_plugin_notes(own_library());
  REQUIRE(notes.has_value());
  REQUIRE_FALSE(notes->empty());
  CHECK(notes->front() == BuiltWith{});
  CHECK(check_plugin_file(own_library()).has_value());
}

TEST_CASE("files that are no library are refused, wherever they are cut off", "[plugin]") {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "plugin.so").string();
  CHECK(check_plugin_file(path).error().code() == Errc::not_found);
  CHECK(check_plugin_file(folder.path().string()).error().code() == Errc::invalid_argument);
  const auto whole = bytes_of(own_library());
  for (const std::size_t size : {0, 1, 16, 63, 64, 65, 200, 600}) {
    std::ofstream{path, std::ios::binary | std::ios::trunc} << whole.substr(0, size);
    CHECK(check_plugin_file(path).error().code() == Errc::invalid_argument);
  }
}

TEST_CASE("a file whose tables lead nowhere is refused or has no notes", "[plugin]") {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "plugin.so").string();
  const auto head = bytes_of(own_library()).substr(0, 4096);
  for (std::size_t at = 16; at < 1024; ++at) {
    auto bytes = head;
    bytes[at] = '\xff';
    std::ofstream{path, std::ios::binary | std::ios::trunc} << bytes;
    CHECK_NOTHROW(check_plugin_file(path));
  }
}

TEST_CASE("the lines of a process tell which plugin ended it and why", "[plugin]") {
  const std::string loading = "gpuactors: loading plugin /p/";
  const std::string done = "gpuactors: no plugin is being loaded";
  CHECK(verdict_of({"hello"}, "ended").empty());
  CHECK(verdict_of({loading + "a.so", done, "cuda is gone"}, "ended").empty());
  CHECK(verdict_of({loading + "a.so", done, loading + "b.so", "oh no"}, "was ended by signal 11 (SIGSEGV)")
        == "plugin /p/b.so: the process that loaded it was ended by signal 11 (SIGSEGV); its last line was \"oh no\"");
  CHECK(verdict_of({loading + "a.so", "[libprotobuf ERROR x.cc:1] File already exists in database: a/b.proto", "oh no"},
                   "ended")
            .starts_with("plugin /p/a.so: its a/b.proto clashes"));
  CHECK(verdict_of({loading + "a.so", "E0000 Symbol name \"a.B\" conflicts with the existing symbol \"a.B\".", done},
                   "ended")
            .starts_with("plugin /p/a.so: its message a.B clashes"));
}

TEST_CASE("a catalog of others is put in order, and names that break the rules are left out", "[plugin]") {
  v1::TypeCatalog catalog;
  const auto fill = [](auto& type, const char* name) {
    type.set_name(name);
    type.set_input("a.In");
    type.set_output("a.Out");
  };
  for (const auto* name : {"b", "a", "", "\x1b[31mred", "with blank", "c"})
    fill(*catalog.add_tasks(), name);
  catalog.mutable_tasks()->rbegin()->set_input("a.\x1b[31mIn");
  auto& actor = *catalog.add_actors();
  actor.set_name("actor");
  actor.set_config("a.Config");
  for (const auto* name : {"with blank", "a\nline"})
    fill(*actor.add_methods(), name);
  const DescribedTypes types{catalog};
  REQUIRE(types.catalog().tasks_size() == 2);
  CHECK(types.catalog().tasks(0).name() == "a");
  CHECK(types.find_task("b").has_value());
  CHECK(types.find_task("c").error().code() == Errc::not_found);
  const auto found = types.find_actor("actor");
  REQUIRE(found.has_value());
  CHECK((*found)->methods_size() == 1);
  CHECK(DescribedTypes::find_method(**found, "with blank").has_value());
  CHECK(DescribedTypes::find_method(**found, "blank").error().message().find("with blank") != std::string::npos);
  CHECK(types.find_task("").error().code() == Errc::not_found);
}

TEST_CASE("an embedded cluster describes the types of the program", "[plugin]") {
  TypeRegistry registry;
  define_task(
      "half", [](TaskContext&, const google::protobuf::Empty& in) { return in; }, registry);
  const auto types = DescribedTypes::of(registry);
  const auto task = types.find_task("half");
  REQUIRE(task.has_value());
  CHECK((*task)->input() == "google.protobuf.Empty");
  CHECK(types.messages().from_json((*task)->input(), "{}").has_value());
}
