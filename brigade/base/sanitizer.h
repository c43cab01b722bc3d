#pragma once

/// `BRIGADE_HAS_SANITIZER` is defined in a build with AddressSanitizer or ThreadSanitizer, which
/// g++ announces by a macro and Clang by a feature.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BRIGADE_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BRIGADE_HAS_SANITIZER 1
#endif
#endif
