"""Conan 2 recipe of transformer.h, for a checkout: conan create tools/cmake/conan

A consumer says `self.requires("transformer-h/1.0.0")`, and in CMake find_package(transformer) with
target_link_libraries(app PRIVATE transformer::transformer). Products of matrices are the header's own (TRF_NO_CBLAS), unless
the option openblas is True.
"""
import os
import re

from conan import ConanFile
from conan.tools.files import copy, load


class TransformerRecipe(ConanFile):
    name = "transformer-h"
    license = "MIT"
    description = "Transformers (translators, language models, classifiers) in one C header: training and inference"
    topics = ("transformer", "translation", "language-model", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"openblas": [True, False]}
    default_options = {"openblas": False}
    no_copy_source = True

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "..", "..", "..", "transformer.h"))
        self.version = re.search(r'#define TRF_VERSION "([^"]+)"', text).group(1)

    def export_sources(self):
        for name in ("transformer.h", "LICENSE"):
            copy(self, name, os.path.join(self.recipe_folder, "..", "..", ".."), self.export_sources_folder)

    def requirements(self):
        if self.options.openblas:
            self.requires("openblas/[>=0.3]", transitive_headers=True)

    def package_id(self):
        self.info.settings.clear()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "transformer.h", self.source_folder, os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "transformer")
        self.cpp_info.set_property("cmake_target_name", "transformer::transformer")
        self.cpp_info.set_property("pkg_config_name", "transformer")
        if not self.options.openblas:
            self.cpp_info.defines = ["TRF_NO_CBLAS"]
        if self.settings.os in ("Linux", "FreeBSD", "Android"):
            self.cpp_info.system_libs = ["m", "pthread"] if self.settings.os != "Android" else ["m"]
