# Warnings, sanitizers and ccache for everything that is ours. Targets of this project have the property BRIGADE_OWN, and those of
# a project that adds this one do not: what comes through brigade_compiler under that condition, warnings above all, stops here.
define_property(TARGET PROPERTY BRIGADE_OWN INITIALIZE_FROM_VARIABLE BRIGADE_OWN)
set(BRIGADE_OWN ON)
set(own $<BOOL:$<TARGET_PROPERTY:BRIGADE_OWN>>)

add_library(brigade_compiler INTERFACE)
target_compile_options(brigade_compiler INTERFACE
  "$<${own}:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Wno-missing-field-initializers;$<$<BOOL:${BRIGADE_WERROR}>:-Werror>>"
  $<$<CONFIG:>:-O2>)  # a build without a type: headers of tensors are slow without the optimizer
# Messages that name a source (TORCH_CHECK's, GoogleTest's) name it relative to the tree: what is built does not tell where.
target_compile_options(brigade_compiler INTERFACE $<${own}:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
target_compile_features(brigade_compiler INTERFACE cxx_std_20)
if(PROJECT_IS_TOP_LEVEL)
  target_include_directories(brigade_compiler INTERFACE ${PROJECT_SOURCE_DIR})
else()
  target_include_directories(brigade_compiler SYSTEM INTERFACE ${PROJECT_SOURCE_DIR})
endif()

if(BRIGADE_SANITIZE)
  add_compile_options(-fsanitize=${BRIGADE_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${BRIGADE_SANITIZE})
  if(BRIGADE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  # GCC cannot follow values through the instrumentation and warns of an empty std::optional that is moved.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  # std::atomic_thread_fence is not understood by ThreadSanitizer; we use none, so the warning would be noise.
  if(BRIGADE_SANITIZE MATCHES "thread")
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

if(BRIGADE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # tells the engine which branches an input takes
endif()

find_program(BRIGADE_CCACHE ccache)
if(BRIGADE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers and ccache agree only under these settings.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${BRIGADE_CCACHE})
  set(BRIGADE_USES_CCACHE TRUE)
endif()
