//! Writes one tree of settings in two formats, TOML and YAML.

/// Lines such as `server.telemetry.exporter = 'c'`; later lines take precedence. Both formats write a value in the same
/// way.
pub(crate) struct Lines<'t>(Vec<(Vec<&'t str>, &'t str)>);

impl<'t> Lines<'t> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds lines below a path.
    pub(crate) fn below(mut self, path: &'t str, text: &'t str) -> Self {
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once(" = ").unwrap_or_else(|| panic!("no value in {line:?}"));
            let path: Vec<&str> =
                path.split('.').chain(key.split('.')).filter(|part| !part.is_empty()).collect();
            self.0.retain(|(other, _)| *other != path);
            self.0.push((path, value));
        }
        self
    }

    pub(crate) fn to_toml(&self) -> String {
        self.0.iter().map(|(path, value)| format!("{} = {value}\n", path.join("."))).collect()
    }

    pub(crate) fn to_yaml(&self) -> String {
        let mut text = String::new();
        let all: Vec<(&[&str], &str)> = self.0.iter().map(|(path, value)| (&path[..], *value)).collect();
        write(&mut text, "", &all);
        text
    }
}

fn write(text: &mut String, indent: &str, lines: &[(&[&str], &str)]) {
    let mut done: Vec<&str> = Vec::new();
    for (path, value) in lines {
        let (name, rest) = (path[0], &path[1..]);
        if done.contains(&name) {
            continue;
        }
        done.push(name);
        if rest.is_empty() {
            *text += &format!("{indent}{name}: {value}\n");
            continue;
        }
        *text += &format!("{indent}{name}:\n");
        let below: Vec<(&[&str], &str)> = lines
            .iter()
            .filter(|(path, _)| path[0] == name)
            .map(|(path, value)| (&path[1..], *value))
            .collect();
        write(text, &format!("{indent}  "), &below);
    }
}
