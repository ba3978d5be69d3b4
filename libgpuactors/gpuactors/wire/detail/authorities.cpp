#include "authorities.hpp"

#include <gpuactors/wire/detail/loaded.hpp>
#include <gpuactors/wire/detail/private_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace gpuactors::detail {

using Path = std::filesystem::path;

namespace {

template <class T>
Result<void> write_all(const Path& file, const std::vector<T>& parts) {
  std::string text;
  for (const auto& part : parts) {
    GPUACTORS_LET(pem, to_pem(*part));
    text += pem;
  }
  return write_file(file, text, Access::all, Existing::replace);
}

void remove_file(const Path& file) {
  std::error_code ignored; // what is left over does no harm, and the next call takes it away
  std::filesystem::remove(file, ignored);
}

/// The list that follows the one of `authority` among `lists`, in its place.
Result<void> renew_list(const Authority& authority, const std::vector<X509*>& added, RevocationLists& lists,
                        WallTime now) {
  auto& certificate = *authority.certificate;
  GPUACTORS_LET(list, make_revocations(list_of(certificate, lists), added, certificate, *authority.key, now));
  std::erase_if(lists, [&](const RevocationList& before) { return is_list_of(*before, certificate); });
  lists.push_back(std::move(list));
  return {};
}

/// The key of an authority that is being put in use, from an earlier call or new.
Result<Key> next_key(const Path& folder) {
  const auto file = folder / next_authority_key_file;
  if (!is_there(file)) {
    GPUACTORS_LET(key, make_key());
    GPUACTORS_LET(pem, to_pem(*key));
    GPUACTORS_TRY(write_file(file, pem, Access::owner, Existing::refuse));
  }
  return load_key(file);
}

/// The authorities with that of `key` before the others. It is made if it is not there yet.
Result<Authorities> with_next(Authorities authorities, EVP_PKEY& key, const Validity& validity) {
  const auto of_key = [&](const Certificate& certificate) { return belongs_to(key, *certificate); };
  if (std::none_of(authorities.begin(), authorities.end(), of_key)) {
    GPUACTORS_LET(made, make_authority(key, validity));
    authorities.insert(authorities.begin(), std::move(made));
  }
  return authorities;
}

/// Who has a certificate that is valid now, of another authority than `signer`, and none of that one.
Result<std::set<std::string>> locked_out(const std::vector<CertificateInfo>& issued, X509& signer, WallTime now) {
  std::set<std::string> with_old;
  std::set<std::string> with_new;
  for (const auto& info : issued) {
    if (info.revoked || info.valid_until <= now)
      continue;
    GPUACTORS_LET(certificate, load_certificate(info.file));
    (is_issued_by(*certificate, signer) ? with_new : with_old).insert(info.subject);
  }
  for (const auto& name : with_new)
    with_old.erase(name);
  return with_old;
}

} // namespace

Result<void> write_authorities(const Path& folder, const Authorities& authorities) {
  return write_all(folder / authority_file, authorities);
}

Result<void> write_revocations(const Path& folder, const RevocationLists& lists) {
  return write_all(folder / revoked_file, lists);
}

Result<void> add_revocations(const Path& folder, const std::vector<Certificate>& certificates, RevocationLists lists,
                             WallTime now) {
  GPUACTORS_LET(signers, load_signers(folder));
  std::size_t left = certificates.size();
  for (const auto& signer : signers) {
    std::vector<X509*> added;
    for (const auto& certificate : certificates)
      if (is_issued_by(*certificate, *signer.certificate))
        added.push_back(certificate.get());
    if (added.empty())
      continue;
    left -= added.size();
    GPUACTORS_TRY(renew_list(signer, added, lists, now));
  }
  if (left > 0)
    return fail(
        Errc::not_found,
        fmt::format("{} of the certificates are of an authority whose key is not in {}: revoke them where it is", left,
                    folder.string()));
  return write_revocations(folder, lists);
}

Result<CertificateInfo> replace_authority(const Path& folder, const Validity& validity, WallTime now) {
  const auto authority_path = folder / authority_file;
  const auto old_path = folder / old_authority_key_file;
  const auto next_path = folder / next_authority_key_file;
  GPUACTORS_LET(before, load_authorities(authority_path));
  GPUACTORS_LET(old_key, read_file(folder / authority_key_file, Access::owner));
  if (!is_there(next_path)) {
    if (before.size() > 1 || is_there(old_path))
      return fail(Errc::already_exists, fmt::format("{0} trusts {1} authorities: before the next one, end the "
                                                    "replacement with gpuactors certs retire --certs {0}",
                                                    folder.string(), before.size()));
    if (const auto old = describe(*before.front(), authority_path); validity.until <= old.valid_until)
      return fail(
          Errc::invalid_argument,
          fmt::format("the new authority would end on {}, and the one that it replaces ends on {}: a longer life "
                      "is expected",
                      to_string(validity.until), to_string(old.valid_until)));
  }
  GPUACTORS_LET(key, next_key(folder));
  GPUACTORS_LET(authorities, with_next(std::move(before), *key, validity));
  GPUACTORS_LET(lists, load_revocations(folder / revoked_file, authorities));
  GPUACTORS_TRY(write_authorities(folder, authorities));
  // There is a list of the new one from the start: `revoked.pem` and `ca.pem` then fit together in whatever order they
  // are copied when the old one goes.
  const auto next = std::find_if(authorities.begin(), authorities.end(),
                                 [&](const Certificate& each) { return belongs_to(*key, *each); });
  const auto made = describe(**next, authority_path);
  GPUACTORS_LET(pem, to_pem(*key));
  const Authority authority{std::move(*next), std::move(key)};
  GPUACTORS_TRY(renew_list(authority, {}, lists, now));
  GPUACTORS_TRY(write_revocations(folder, lists));
  // An interrupted call may have got this far already: then the key in use is the new one.
  if (old_key != pem)
    GPUACTORS_TRY(write_file(old_path, old_key, Access::owner, Existing::replace));
  GPUACTORS_TRY(write_file(folder / authority_key_file, pem, Access::owner, Existing::replace));
  remove_file(next_path);
  return made;
}

Result<std::vector<CertificateInfo>> retire_authority(const Path& folder, const std::vector<CertificateInfo>& issued,
                                                      bool force, WallTime now) {
  const auto authority_path = folder / authority_file;
  const auto old_path = folder / old_authority_key_file;
  GPUACTORS_LET(signers, load_signers(folder));
  GPUACTORS_LET(authorities, load_authorities(authority_path));
  auto& signer = *signers.front().certificate;
  if (is_there(folder / next_authority_key_file))
    return fail(Errc::invalid_argument, fmt::format("the last replacement of an authority was interrupted: complete it "
                                                    "with gpuactors certs replace --certs {}",
                                                    folder.string()));
  if (authorities.size() == 1 && !is_there(old_path))
    return fail(Errc::not_found, fmt::format("{} is the only authority that is trusted: gpuactors certs replace makes "
                                             "another one beside it",
                                             name_of(signer)));
  GPUACTORS_LET(names, locked_out(issued, signer, now));
  if (!names.empty() && !force)
    return fail(
        Errc::invalid_argument,
        fmt::format("{} certificates of the old authority are in use whose owners have none of the new one ({}): "
                    "issue them with gpuactors certs issue, or revoke the old ones",
                    names.size(), fmt::join(names, ", ")));
  GPUACTORS_LET(lists, load_revocations(folder / revoked_file, authorities));
  std::vector<CertificateInfo> retired;
  for (const auto& authority : authorities)
    if (X509_cmp(authority.get(), &signer) != 0)
      retired.push_back(describe(*authority, authority_path));
  std::erase_if(authorities, [&](const Certificate& each) { return X509_cmp(each.get(), &signer) != 0; });
  std::erase_if(lists, [&](const RevocationList& each) { return !is_list_of(*each, signer); });
  if (lists.empty())
    GPUACTORS_TRY(renew_list(signers.front(), {}, lists, now));
  GPUACTORS_TRY(write_authorities(folder, authorities));
  GPUACTORS_TRY(write_revocations(folder, lists));
  for (const auto& info : issued)
    if (const auto certificate = load_certificate(info.file); certificate && !is_issued_by(**certificate, signer))
      remove_file(info.file);
  remove_file(old_path);
  return retired;
}

} // namespace gpuactors::detail
